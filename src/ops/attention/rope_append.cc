// SPDX-License-Identifier: Apache-2.0
// rope_append: what stands between projections and attend in one step: heads of queries and keys normalised and turned,
// keys and values written into the state. Made by compiler passes alone; its decomposition is its meaning.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const auto types = input.operands;
  const tensor::Type& q = types[2];
  const tensor::Type& k = types[3];
  const std::string& norm = input.attributes.get_string("norm");
  FL_TRY(want_attribute(norm == "none" || norm == "rms", OpKind::kRopeAppend, "norm", norm, "\"none\" or \"rms\""));
  FL_TRY(want_attribute(types.size() == 5 || (types.size() == 7 && norm == "rms"), OpKind::kRopeAppend, "norm", norm,
                        "\"rms\" with both weights or none"));
  for (const tensor::Type* x : {&q, &k}) {
    const std::vector<tensor::Type> turned = {*x, types[1]};
    FL_TRY(
        op_def(OpKind::kRope).infer({.operands = turned, .attributes = input.attributes}).with_context("rope_append"));
  }
  const std::vector<tensor::Type> rows = {types[0], k, types[4]};
  FL_TRY(op_def(OpKind::kAppend).infer({.operands = rows, .attributes = {}, .state = input.state}));
  for (size_t i = 5; i < types.size(); ++i) {
    const tensor::Dim width = last_dim(i == 5 ? q : k);
    FL_TRY(want(is_plain_float(types[i]) && has_shape(types[i], {width}), OpKind::kRopeAppend, "norm weight", types[i],
                "a float vector of " + width.to_string()));
  }
  return Types{q, tensor::Type::state()};
}

DecomposeResult decompose(DecomposeBuilder& builder, std::span<const DecomposeBuilder::Value> operands,
                          const Attributes& attributes) {
  Attributes rope;
  for (const AttributeDef& attribute : op_def(OpKind::kRope).attributes) {
    rope.set(std::string(attribute.name), *attributes.find(attribute.name));
  }
  const auto turned = [&](size_t at, size_t weight) {
    DecomposeBuilder::Value x = operands[at];
    if (attributes.get_string("norm") == "rms") {
      Attributes norm;
      norm.set("eps", attributes.get_float("norm_eps"));
      norm.set("offset", attributes.get_float("norm_offset"));
      std::vector<DecomposeBuilder::Value> inputs = {x};
      if (weight < operands.size()) inputs.push_back(operands[weight]);
      x = builder.emit(OpKind::kRmsNorm, inputs, std::move(norm));
    }
    const std::vector<DecomposeBuilder::Value> inputs = {x, operands[1]};
    return builder.emit(OpKind::kRope, inputs, rope);
  };
  const DecomposeBuilder::Value q = turned(2, 5);
  const std::vector<DecomposeBuilder::Value> rows = {operands[0], turned(3, 6), operands[4]};
  return std::vector{q, builder.emit(OpKind::kAppend, rows, {})};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule rule{"heads", {1, -1, 1, 1, 1}, {1, 1}, false};
  rule.operand_axes.resize(input.operands.size(), -1);
  return {rule};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 3);
}

}  // namespace

OpDef rope_append_def() {
  OpDef def;
  def.kind = OpKind::kRopeAppend;
  def.name = "rope_append";
  def.operands = {{"state", OperandDef::Arity::kOne, true},
                  {"positions"},
                  {"q"},
                  {"k"},
                  {"v"},
                  {"q_norm", OperandDef::Arity::kOptional},
                  {"k_norm", OperandDef::Arity::kOptional}};
  def.attributes = rope_def().attributes;
  def.attributes.push_back({"norm", AttributeType::kString, false, std::string("none"), "\"none\" or \"rms\""});
  def.attributes.push_back({"norm_eps", AttributeType::kFloat, false, 0.0, "as rms_norm's eps"});
  def.attributes.push_back({"norm_offset", AttributeType::kFloat, false, 0.0, "as rms_norm's offset"});
  def.meaning =
      "n = norm is \"rms\" ? rms_norm of each head : unchanged; results: rope(n(q)), and the state (two components) "
      "after append of rope(n(k)) and v.";
  def.rounding = "as its parts, float32 between them";
  def.infer = infer;
  def.decompose = decompose;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "of its decomposition";
  return def;
}

}  // namespace firstlight::ops
