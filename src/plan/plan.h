// SPDX-License-Identifier: Apache-2.0
// The executable plan: what the compiler hands to the run-time tower. Kernels by symbol, buffers by number, the arena's
// layout per bucket, state and weights by name; no graph, no pointers. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/step_class.h"
#include "ops/attributes.h"
#include "ops/op.h"
#include "ops/state.h"
#include "tensor/type.h"

namespace firstlight::plan {

using BufferId = int32_t;

struct Buffer {
  enum class Kind : uint8_t {
    kInput,      // of the batch; `name` says which: tokens, positions, output_rows
    kFile,       // bytes of the checkpoint's tensor `name`, read where they lie
    kResident,   // made by load steps, kept while the plan is loaded
    kTemporary,  // made by load steps, dropped when the last of them that reads it is done
    kArena,      // an activation: a place in the arena, per bucket
    kAlias,      // the bytes of `alias_of` under another type
    kSlice,      // the current expert's part of the stacked buffer `alias_of`, inside a per-expert step
    kWorkspace,  // scratch of one step: a place in the arena, per bucket, of as many bytes as the bucket says
  };
  Kind kind = Kind::kArena;
  tensor::Type type;
  std::string name;
  BufferId alias_of = -1;
  int64_t packed_bytes = 0;  // size of a packed weight; 0: the type says it
};

// A function of Plan::source. `in` are the operands, `out` the result, all float32; `dims` are the result's sizes. It
// computes elements, or rows of the last axis (KernelStep::generated_rows), from `begin` up to `end`.
using GeneratedFunction = void (*)(const float* const* in, float* out, const int64_t* dims, int64_t begin, int64_t end);

struct KernelStep {
  std::string symbol;
  ops::OpKind op;
  std::vector<BufferId> inputs;  // in operand order; -1 for a state operand
  std::vector<BufferId> outputs;
  ops::Attributes attributes;
  std::vector<int32_t> states;  // per state operand, in order: index into Plan::states
  std::string generated;        // a function of Plan::source that does the same; runs in the kernel's place when built
  bool generated_rows = false;  // whether it counts rows, not elements
  std::string fallback;     // a plainer kernel for the same buffers, to check this one by and to fall back on; or ""
  BufferId workspace = -1;  // scratch that the kernel, or any that may stand in for it, needs; -1: not planned
};

struct Block;

// Runs `body` once per expert that has rows: gathers them into `rows`, points `slices` at the expert's weights, and
// adds the body's result, weighted, to `output`.
struct PerExpertStep {
  int64_t num_experts = 0;
  bool weight_on_input = false;
  BufferId x = -1;        // f32[T, D]
  BufferId indices = -1;  // i32[T, k]
  BufferId weights = -1;  // f32[T, k]
  BufferId rows = -1;     // f32[N, D]
  std::vector<BufferId> slices;
  BufferId result = -1;  // f32[N, D']
  BufferId output = -1;  // f32[T, D']
  std::unique_ptr<Block> body;
};

// Runs one of two blocks, by a scalar; then copies its results to `outputs`.
struct IfStep {
  BufferId condition = -1;
  std::unique_ptr<Block> then_block, else_block;
  std::vector<BufferId> then_results, else_results, outputs;
};

struct Step {
  std::variant<KernelStep, PerExpertStep, IfStep> body;
  StepClass step_class = StepClass::kCompute;
  std::string label;  // "model.layers.3.self_attn attend"
};

struct Block {
  std::vector<Step> steps;
};

// The sizes a plan was laid out for. Any batch within them runs in its arena.
struct Bucket {
  int64_t max_tokens = 0;
  int64_t max_outputs = 0;
  int64_t max_sequences = 0;
  std::vector<int64_t> offsets;  // per buffer; -1: not in the arena
  std::vector<int64_t> bytes;    // per buffer in the arena: what is planned for it, at most
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // the most that is alive at one time: no layout can do with less
  int64_t sum_bytes = 0;          // what it would be without reuse

  // The most that each symbol can stand for in a batch of this bucket.
  tensor::SymbolValues largest_values() const;
};

struct PlanOutput {
  std::string name;
  BufferId buffer;
};

struct Plan {
  std::string name;
  std::string backend;
  std::string compute_mode;
  std::vector<Buffer> buffers;
  std::vector<Step> load_steps;
  Block body;
  std::vector<ops::StateDecl> states;  // component dtypes as stored
  std::vector<PlanOutput> outputs;
  std::vector<Bucket> buckets;  // ascending by max_tokens
  ops::Attributes metadata;
  std::string source;  // C++ of the generated functions, one translation unit; empty: none

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
  Buffer& buffer(BufferId id) { return buffers[static_cast<size_t>(id)]; }
};

// Bytes of a buffer, packed or plain; `values` may be left out where the shape is constant.
int64_t buffer_bytes(const Buffer& buffer, const tensor::SymbolValues& values = {});

// The plan as text: buffers with sizes and offsets, steps in order. For reading and for tests.
std::string print(const Plan& plan);

}  // namespace firstlight::plan
