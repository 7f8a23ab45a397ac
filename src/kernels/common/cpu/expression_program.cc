// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/cpu/expression_program.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace firstlight::kernels {

using ops::ExprOp;
using ops::ExprTerm;

int32_t ExpressionProgram::take_slot() {
  if (free_slots_.empty()) return num_slots_++;
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

ExpressionProgram::ExpressionProgram(const ops::Expression& expression) : num_inputs_(expression.num_inputs()) {
  const std::span<const ExprTerm> terms = expression.terms();
  FL_CHECK(!terms.empty());
  const auto last = static_cast<int32_t>(terms.size()) - 1;
  std::vector<int32_t> last_use(terms.size(), -1);
  for (int32_t i = 0; i <= last; ++i) {
    for (int32_t arg : terms[static_cast<size_t>(i)].args) {
      if (arg >= 0) last_use[static_cast<size_t>(arg)] = i;
    }
  }
  std::vector<Operand> operands(terms.size());
  for (int32_t i = 0; i <= last; ++i) {
    const ExprTerm& term = terms[static_cast<size_t>(i)];
    Operand& result = operands[static_cast<size_t>(i)];
    if (term.op == ExprOp::kInput) {
      result = {Operand::Kind::kInput, term.input};
      continue;
    }
    if (term.op == ExprOp::kConstant) {
      result = {Operand::Kind::kConstant, static_cast<int32_t>(constants_.size() / kChunk)};
      constants_.insert(constants_.end(), kChunk, static_cast<float>(term.constant));
      continue;
    }
    Instruction instruction{term.op, {}, -1};
    for (int a = 0; a < ops::expr_op_arity(term.op); ++a) {
      const auto arg = static_cast<size_t>(term.args[a]);
      instruction.args[a] = operands[arg];
      if (last_use[arg] == i && operands[arg].kind == Operand::Kind::kSlot) {
        free_slots_.push_back(operands[arg].index);
        last_use[arg] = -1;  // given back once, though it may be used twice here
      }
    }
    if (i != last) {  // element-wise: a slot given back by an operand may take the result
      instruction.slot = take_slot();
      result = {Operand::Kind::kSlot, instruction.slot};
    }
    code_.push_back(instruction);
  }
  value_ = operands.back();
}

void ExpressionProgram::run(const VectorOps& ops, std::span<const float* const> inputs, int64_t count, float* scratch,
                            float* out) const {
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t size = std::min(kChunk, count - start);
    const auto array = [&](const Operand& operand) -> const float* {
      switch (operand.kind) {
        case Operand::Kind::kNone:
          return nullptr;
        case Operand::Kind::kInput:
          return inputs[static_cast<size_t>(operand.index)] + start;
        case Operand::Kind::kConstant:
          return constants_.data() + operand.index * kChunk;
        case Operand::Kind::kSlot:
          return scratch + operand.index * kChunk;
      }
      return nullptr;
    };
    if (code_.empty()) {
      const float* value = array(value_);
      if (value != out + start) std::memcpy(out + start, value, static_cast<size_t>(size) * sizeof(float));
      continue;
    }
    for (const Instruction& step : code_) {
      float* to = step.slot < 0 ? out + start : scratch + step.slot * kChunk;
      ops.apply(step.op, array(step.args[0]), array(step.args[1]), array(step.args[2]), to, size);
    }
  }
}

}  // namespace firstlight::kernels
