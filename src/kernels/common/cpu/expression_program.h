// SPDX-License-Identifier: Apache-2.0
// An ops::Expression made ready to run over float arrays: terms in order, temporary arrays assigned and reused,
// constants spread out. Used for the epilogues of matrix products and for `map`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/cpu/vector_ops.h"
#include "ops/expression.h"

namespace firstlight::kernels {

class ExpressionProgram {
 public:
  static constexpr int64_t kChunk = 256;  // elements evaluated term by term: the temporaries stay in the first cache

  // `expression` is not empty.
  explicit ExpressionProgram(const ops::Expression& expression);

  int num_inputs() const { return num_inputs_; }
  int64_t scratch_floats() const { return num_slots_ * kChunk; }

  // out[i] for i < count, a multiple of 16. `inputs[j]` is the array of x<j>, or null where it is not used; `out` may
  // be one of them. `scratch` has scratch_floats() floats, 64-byte aligned.
  void run(const VectorOps& ops, std::span<const float* const> inputs, int64_t count, float* scratch, float* out) const;

 private:
  struct Operand {
    enum class Kind : uint8_t { kNone, kInput, kConstant, kSlot } kind = Kind::kNone;
    int32_t index = 0;
  };
  struct Instruction {
    ops::ExprOp op;
    Operand args[3];
    int32_t slot;  // -1: the result itself
  };

  int32_t take_slot();

  std::vector<Instruction> code_;
  std::vector<float> constants_;  // kChunk copies of each
  Operand value_;                 // when there is no code: the input or constant that is the result
  std::vector<int32_t> free_slots_;
  int32_t num_slots_ = 0;
  int num_inputs_ = 0;
};

}  // namespace firstlight::kernels
