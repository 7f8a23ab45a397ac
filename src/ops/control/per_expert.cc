// SPDX-License-Identifier: Apache-2.0
// per_expert: routes rows to experts, runs the body for each expert that has rows, and adds the results up.
#include "ops/control/regions.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

using tensor::Type;

Status check(std::span<const Type> operands, const Attributes& attributes) {
  const Type& x = operands[0];
  const Type& idx = operands[1];
  const Type& weight = operands[2];
  FL_TRY(want(is_f32(x) && rank(x) == 2, OpKind::kPerExpert, "x", x, "f32[T, D]"));
  FL_TRY(want(is_i32(idx) && rank(idx) == 2 && idx.shape[0] == x.shape[0], OpKind::kPerExpert, "idx", idx,
              "i32[" + x.shape[0].to_string() + ", k]"));
  FL_TRY(want(is_f32(weight) && has_shape(weight, idx.shape), OpKind::kPerExpert, "weight", weight,
              "f32" + tensor::shape_to_string(idx.shape)));
  const int64_t experts = attributes.get_int("num_experts");
  FL_TRY(want_attribute(experts >= 1, OpKind::kPerExpert, "num_experts", std::to_string(experts), "1 or more"));
  const std::string& on = attributes.get_string("weight_on");
  FL_TRY(want_attribute(on == "output" || on == "input", OpKind::kPerExpert, "weight_on", "\"" + on + "\"",
                        "\"output\" or \"input\""));
  for (const Type& stacked : operands.subspan(3)) {
    FL_TRY(want(!stacked.is_state() && rank(stacked) >= 1 && stacked.shape[0] == tensor::Dim(experts),
                OpKind::kPerExpert, "stacked", stacked, "a leading axis of " + std::to_string(experts)));
  }
  return ok_status();
}

Result<Types> infer(const InferInput& input) {
  FL_TRY(check(input.operands, input.attributes));
  const std::vector<Type>& yields = input.regions[0];
  if (yields.size() != 1) {
    return invalid_argument("per_expert: its region yields " + std::to_string(yields.size()) + " values, wanted 1");
  }
  const Type& y = yields[0];
  FL_TRY(want(is_f32(y) && rank(y) == 2 && y.shape[0] == tensor::Dim(1, tensor::Symbol::kRows), OpKind::kPerExpert,
              "yielded by the region", y, "f32[N, D']"));
  return Types{f32({input.operands[0].shape[0], y.shape[1]})};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule experts{"experts", std::vector<int>(input.operands.size(), 0), {-1}, true};
  for (size_t i = 0; i < 3; ++i) experts.operand_axes[i] = -1;
  ShardRule tokens{"tokens", std::vector<int>(input.operands.size(), -1), {0}, false};
  for (size_t i = 0; i < 3; ++i) tokens.operand_axes[i] = 0;
  return {experts, tokens};
}

// Routing and adding up; the body's own operators state theirs.
Cost cost(const InferInput& input, std::span<const Type> results, const tensor::SymbolValues& values) {
  const auto k = static_cast<double>(input.operands[1].shape[1].at(values));
  const double in = type_bytes(input.operands[0], values) * k;
  const double out = type_bytes(results[0], values);
  return {out / 4 * k * 2, in + out * k, in + out};
}

}  // namespace

Result<Types> per_expert_parameters(std::span<const Type> operands, const Attributes& attributes) {
  FL_TRY(check(operands, attributes));
  Types parameters = {f32({tensor::Dim(1, tensor::Symbol::kRows), operands[0].shape[1]})};
  for (const Type& stacked : operands.subspan(3)) {
    Type one = stacked;
    one.shape.erase(one.shape.begin());
    parameters.push_back(std::move(one));
  }
  return parameters;
}

OpDef per_expert_def() {
  OpDef def;
  def.kind = OpKind::kPerExpert;
  def.name = "per_expert";
  def.operands = {{"x"}, {"idx"}, {"weight"}, {"stacked", OperandDef::Arity::kVariadic}};
  def.attributes = {
      {"num_experts", AttributeType::kInt, true, {}, "E, the leading axis of the stacked operands"},
      {"weight_on", AttributeType::kString, false, std::string("output"), "\"output\" or \"input\""},
  };
  def.meaning =
      "y[t] = sum over j of weight[t, j] * body_e(x[t]), e = idx[t, j]; with weight_on \"input\": body_e(weight[t, j] "
      "* "
      "x[t]). The body sees the rows routed to one expert, f32[N, D], and each stacked operand's part of that expert. "
      "Experts without rows do nothing; indices outside [0, E) are left out.";
  def.rounding = "products and sums of the results in float32 (float64 in the judge), in the order of j";
  def.num_regions = 1;
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "of the body per expert; d weight[t, j] = dy[t] · body_e(x[t])";
  return def;
}

}  // namespace firstlight::ops
