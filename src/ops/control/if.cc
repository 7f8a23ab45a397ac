// SPDX-License-Identifier: Apache-2.0
// if: one of two regions, chosen by a value on the device.
#include "ops/control/regions.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

using tensor::Type;

Status check(std::span<const Type> operands) {
  const Type& condition = operands[0];
  const bool is_flag = is_i32(condition) || (is_plain(condition) && condition.dtype == tensor::DType::kBool);
  return want(is_flag && tensor::is_static(condition.shape) && tensor::num_elements(condition.shape) == 1, OpKind::kIf,
              "condition", condition, "an i32 or bool of one element");
}

Result<Types> infer(const InferInput& input) {
  FL_TRY(check(input.operands));
  const Types& yes = input.regions[0];
  const Types& no = input.regions[1];
  if (yes.size() != no.size()) {
    return invalid_argument("if: its regions yield " + std::to_string(yes.size()) + " and " +
                            std::to_string(no.size()) + " values, wanted equal numbers");
  }
  for (size_t i = 0; i < yes.size(); ++i) {
    FL_TRY(want(yes[i] == no[i], OpKind::kIf, "yielded by the second region", no[i], yes[i].to_string()));
  }
  return yes;
}

Cost cost(const InferInput&, std::span<const Type>, const tensor::SymbolValues&) { return {}; }

}  // namespace

Result<Types> if_parameters(std::span<const Type> operands) {
  FL_TRY(check(operands));
  return Types(operands.begin() + 1, operands.end());
}

OpDef if_def() {
  OpDef def;
  def.kind = OpKind::kIf;
  def.name = "if";
  def.operands = {{"condition"}, {"captured", OperandDef::Arity::kVariadic}};
  def.meaning =
      "The results of region 0 when the condition is not zero, else of region 1; only that region runs. Both take the "
      "captured values and yield the same types.";
  def.rounding = "none of its own";
  def.num_regions = 2;
  def.infer = infer;
  def.cost = cost;
  def.gradient = "of the region that ran";
  return def;
}

}  // namespace firstlight::ops
