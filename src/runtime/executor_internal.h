// SPDX-License-Identifier: Apache-2.0
// What the executor's two halves (load.cc, run.cc) share.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "runtime/executor.h"

namespace firstlight::runtime {

// One way to run a step: a kernel of the catalog, or a generated function.
struct Executor::Form {
  std::string name;
  const kernels::KernelBody* body = nullptr;
  std::unique_ptr<kernels::Prepared> prepared;
  plan::GeneratedFunction generated = nullptr;
};

struct Executor::PreparedKernel {
  std::vector<Form> forms;  // best first; the last one is the plainest there is
  size_t active = 0;
  std::vector<tensor::Type> operand_types, result_types;

  catalog::Signature signature(const plan::KernelStep& step) const;
};

// What one worker knows while it runs a batch.
struct Executor::Context {
  Worker& worker;
  const plan::Batch* batch = nullptr;
  std::span<const plan::StateView> states;
  const plan::Bucket* bucket = nullptr;  // null while loading
  tensor::SymbolValues values;
  int64_t expert = -1;                        // inside a per-expert step
  int64_t first_row = 0;                      // there: of the expert's rows among those of all experts
  bool canary = false;                        // this run compares forms
  std::vector<tensor::View> inputs, outputs;  // scratch of run_step
  std::vector<const float*> operands;         // the same for a generated function
  std::vector<const plan::StateView*> step_states;
};

// Which rows go to which expert, made anew by each per-expert step. A group holds no token twice, so that it fits the
// step's rows and workers never add to one output row together: a token that names an expert again goes into one more
// group of that expert.
struct Executor::ExpertRows {
  struct Row {
    int32_t token;
    float weight;
  };
  int64_t expert = 0;
  std::vector<Row> rows;
};

// What runs keep for the next one, so that a run needs no memory.
struct Executor::Routing {
  // The lists of a worker's context.
  struct Lists {
    std::vector<tensor::View> inputs, outputs;
    std::vector<const float*> operands;
    std::vector<const plan::StateView*> step_states;
  };
  std::vector<Lists> lists;        // per worker
  std::vector<ExpertRows> groups;  // by expert; those of one expert that follow the first are seldom there
};

// The watch over the arena (memory_check.cc). Worker 0 calls both while the others wait.
struct Executor::MemoryCheck {
  explicit MemoryCheck(std::span<std::byte> arena_bytes) : arena(arena_bytes) {}

  struct Range {
    int64_t begin = 0, end = 0;
    bool is_result = false;  // must be written whole; else it may be
  };
  // Keeps what lies outside `ranges` in mind and spoils fresh results, so that what is left unwritten shows.
  void before(std::vector<Range> ranges);
  // Notes a fault where anything outside them has changed.
  void after(const std::string& label);

  std::span<std::byte> arena;
  std::vector<Range> open;  // of the step under watch, ascending
  uint64_t kept = 0;
  std::string fault;  // the first; "": none

 private:
  uint64_t hash_closed() const;
};

// What a comparison of two forms keeps; worker 0 fills it between barriers.
struct Executor::CanaryCopies {
  std::vector<std::vector<std::byte>> inputs;  // those that the results overwrite; empty: none
  std::vector<std::vector<std::byte>> outputs;
};

}  // namespace firstlight::runtime
