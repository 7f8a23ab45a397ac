// SPDX-License-Identifier: Apache-2.0
// A graph from its text with a checkpoint of random weights, and what it computes over a fixed run of batches: several
// sequences packed, prefill in chunks, then decode. For tests that compare ways to compile one graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compiler/compile.h"
#include "formats/tensor_file.h"
#include "ir/graph.h"
#include "runtime/executor.h"

namespace firstlight::plans {

// A folder that goes with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Model {
  ir::Graph graph;
  TemporaryFolder folder;
  formats::Checkpoint checkpoint;
};

// Weights are drawn so that products of unit rows stay about one; names that start with "norm" lie around one. Written
// as safetensors, or as GGUF where a weight has a block format.
Result<Model> make_model(std::string_view text, uint32_t seed);

// The output rows of all batches, one after another, by output; outputs without rows once per batch.
using Outputs = std::map<std::string, std::vector<float>>;

compiler::CompileOptions options_for(catalog::Backend backend);

// Compiles for batches of up to 16 tokens (in two buckets), runs the batches.
Result<Outputs> run_model(const Model& model, const compiler::CompileOptions& options, ThreadPool& pool,
                          const runtime::ExecutorOptions& executor_options = {});

// The largest of |a - b| over the largest of |b|, over all outputs. Infinite when shapes differ or a value is no
// number.
double relative_difference(const Outputs& a, const Outputs& b);

}  // namespace firstlight::plans
