// SPDX-License-Identifier: Apache-2.0
// window_emit: tokens gathered in groups of `rate`, given out when a group is complete. What waits for its group, and
// the group before it, lie in a fixed state.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  if (input.state == nullptr) return invalid_argument("window_emit: operand state has no declaration");
  const tensor::Type& x = input.operands[0];
  FL_TRY(want(is_f32(x) && rank(x) == 2 && x.shape[0].symbol != tensor::Symbol::kGroups && x.shape[1].is_static(),
              OpKind::kWindowEmit, "x", x, "f32[T, C]"));
  const int64_t rate = input.attributes.get_int("rate");
  FL_TRY(want_attribute(rate >= 1 && rate <= (int64_t{1} << 20), OpKind::kWindowEmit, "rate", std::to_string(rate),
                        "1 or more"));
  const int64_t rows = input.attributes.get_bool("overlap") ? 2 * rate : rate;
  const std::string& name = input.attributes.get_string("component");
  const int index = input.state->component_index(name);
  const StateComponent* component = index < 0 ? nullptr : &input.state->components[static_cast<size_t>(index)];
  const bool fits = input.state->kind == StateKind::kFixed && component != nullptr && component->heads == rows &&
                    tensor::Dim(component->width) == x.shape[1] && component->dtype == tensor::DType::kF32;
  FL_TRY(want_attribute(
      fits, OpKind::kWindowEmit, "component", "\"" + name + "\" of state '" + input.state->name + "'",
      "an f32 component {" + std::to_string(rows) + ", " + x.shape[1].to_string() + "} of a fixed state"));
  const tensor::Dim groups = tensor::Dim::groups(rate);
  return Types{f32({groups, tensor::Dim(rows), x.shape[1]}), i32({groups}), tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef window_emit_def() {
  OpDef def;
  def.kind = OpKind::kWindowEmit;
  def.name = "window_emit";
  def.operands = {{"x"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {
      {"component", AttributeType::kString, true, {}, "of the state: {rate, C}, or {2 rate, C} with overlap"},
      {"rate", AttributeType::kInt, true, {}, "tokens in a group"},
      {"overlap", AttributeType::kBool, false, false, "the group before stands in front of each group"},
      {"fill", AttributeType::kFloat, false, 0.0, "what stands in front of a sequence's first group"},
  };
  def.meaning =
      "Group j of a sequence is its tokens j rate .. j rate + rate - 1; it comes out in the batch that holds its last "
      "token. y[g, i, :] = x of token j rate + i (with overlap: token (j - 1) rate + i for i < 2 rate, `fill` before "
      "the sequence's start), positions[g] = j rate; groups stand in the batch's order of sequences, ascending. The "
      "state keeps the row of token p at p modulo its rows. Results: y, positions and the state after it.";
  def.rounding = "nowhere: values are moved";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx of a token = dy at its places";
  return def;
}

}  // namespace firstlight::ops
