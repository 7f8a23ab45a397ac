// SPDX-License-Identifier: Apache-2.0
// Runs a graph for some prompts and hands out the rows of its taps: all at once in one plan, on any backend; or out of
// core, piece by piece within a bound of memory, so that a model larger than it can be recorded. Both give the same
// bits on the reference backend; other chunks do as well, but for recurrences, whose state is rounded between chunks.
#pragma once

#include <functional>

#include "align/piece_runner.h"
#include "align/rounding.h"
#include "align/taps.h"
#include "base/thread_pool.h"
#include "compiler/compile.h"
#include "formats/tensor_file.h"

namespace firstlight::align {

// Not owned; all of it must outlive the run. `compile` and `executor` say backend, compute mode and the like; buckets
// and limits are set here.
struct Resources {
  const formats::Checkpoint* checkpoint = nullptr;
  ThreadPool* pool = nullptr;
  compiler::CompileOptions compile;
  runtime::ExecutorOptions executor;
};

struct RunOptions {
  int64_t chunk = 0;         // tokens of a prompt per run; 0: as many as are useful (out of core: and fit)
  bool batched = false;      // pieces of all prompts in one batch
  int64_t memory_limit = 0;  // of the whole process, bytes; 0: all at once, as much as it takes
};

// Rows [first_row, ...) of a tap of one prompt, in order; valid during the call.
using TapVisitor = std::function<void(size_t tap, size_t prompt, int64_t first_row, const tensor::View& rows)>;

// What a run took.
struct RunFacts {
  size_t segments = 1;
  int64_t chunk = 0;  // the smallest there was
  Rounding rounding;  // the roughest of its plans
};

// Errors: those of compiler and executor; kInvalidArgument for empty prompts or ids out of the vocabulary; kOutOfMemory
// where a piece does not fit the limit, with its layer and needed and available bytes; kUnsupported for batches out of
// core.
Result<RunFacts> run_taps(const ir::Graph& graph, const std::vector<Tap>& taps, const Prompts& prompts,
                          const RunOptions& options, const Resources& resources, const TapVisitor& visit);

// Bytes of this process that are in memory now, and the most there have been. 0: the system does not tell.
int64_t resident_bytes();
int64_t peak_resident_bytes();

}  // namespace firstlight::align
