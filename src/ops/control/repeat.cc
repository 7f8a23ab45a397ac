// SPDX-License-Identifier: Apache-2.0
// repeat: a region a fixed number of times, its results carried into the next turn.
#include "ops/control/regions.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

using tensor::Type;

constexpr int64_t kMostTurns = 65536;  // each is written out in the plan

Result<Types> infer(const InferInput& input) {
  const int64_t count = input.attributes.get_int("count");
  FL_TRY(want_attribute(count >= 0 && count <= kMostTurns, OpKind::kRepeat, "count", std::to_string(count),
                        "0 to " + std::to_string(kMostTurns)));
  const Types& yields = input.regions[0];
  if (yields.empty() || yields.size() > input.operands.size()) {
    return invalid_argument("repeat: its region yields " + std::to_string(yields.size()) + " values, wanted 1 to " +
                            std::to_string(input.operands.size()) + ", one per carried operand");
  }
  for (size_t i = 0; i < yields.size(); ++i) {
    FL_TRY(want(yields[i] == input.operands[i], OpKind::kRepeat, "yielded by the region", yields[i],
                input.operands[i].to_string() + " as carried operand " + std::to_string(i)));
  }
  return yields;
}

Cost cost(const InferInput&, std::span<const Type>, const tensor::SymbolValues&) { return {}; }

}  // namespace

Result<Types> repeat_parameters(std::span<const Type> operands) { return Types(operands.begin(), operands.end()); }

OpDef repeat_def() {
  OpDef def;
  def.kind = OpKind::kRepeat;
  def.name = "repeat";
  def.operands = {{"carried", OperandDef::Arity::kVariadic}};
  def.attributes = {{"count", AttributeType::kInt, true, {}, "turns"}};
  def.meaning =
      "The region `count` times. Its parameters are all operands; what it yields, n values, replaces the first n "
      "operands "
      "in the next turn; the results are those n after the last turn.";
  def.rounding = "none of its own";
  def.num_regions = 1;
  def.infer = infer;
  def.cost = cost;
  def.gradient = "of the region, turn by turn backwards";
  return def;
}

}  // namespace firstlight::ops
