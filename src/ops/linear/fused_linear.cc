// SPDX-License-Identifier: Apache-2.0
// fused_linear: a norm, several products of the same rows, and formulas over the products, in one step. Made by
// compiler passes alone; its decomposition is its meaning.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {

FusedLinearOperands fused_linear_operands(const Attributes& attributes) {
  FusedLinearOperands places;
  places.norm_weight = attributes.get_bool("norm_weighted") ? 1 : -1;
  places.first_weight = attributes.get_bool("norm_weighted") ? 2 : 1;
  places.num_weights = static_cast<int>(attributes.get_int("num_weights"));
  int next = places.first_weight + places.num_weights;
  for (const int64_t flag : attributes.get_ints("bias")) places.biases.push_back(flag != 0 ? next++ : -1);
  places.first_extra = next;
  places.num_extras = static_cast<int>(attributes.get_int("num_extras"));
  return places;
}

namespace {

using tensor::Type;

Status check_counts(const InferInput& input) {
  const Attributes& a = input.attributes;
  const int64_t n = a.get_int("num_weights");
  const std::vector<int64_t>& bias = a.get_ints("bias");
  FL_TRY(want_attribute(n >= 1 && n <= 64, OpKind::kFusedLinear, "num_weights", std::to_string(n), "1 to 64"));
  FL_TRY(want_attribute(static_cast<int64_t>(bias.size()) == n, OpKind::kFusedLinear, "bias", attribute_to_string(bias),
                        "one flag per weight"));
  const std::string& norm = a.get_string("norm");
  FL_TRY(want_attribute(norm == "none" || norm == "rms", OpKind::kFusedLinear, "norm", norm, "\"none\" or \"rms\""));
  FL_TRY(want_attribute(norm == "rms" || !a.get_bool("norm_weighted"), OpKind::kFusedLinear, "norm_weighted", "true",
                        "false without a norm"));
  const int64_t extras = a.get_int("num_extras");
  FL_TRY(want_attribute(extras >= 0, OpKind::kFusedLinear, "num_extras", std::to_string(extras), "0 or more"));
  const FusedLinearOperands places = fused_linear_operands(a);
  const auto wanted = static_cast<size_t>(places.first_extra + places.num_extras);
  if (input.operands.size() != wanted) {
    return invalid_argument("fused_linear: it has " + std::to_string(input.operands.size()) + " operands, wanted " +
                            std::to_string(wanted));
  }
  return ok_status();
}

Status check_weights(const InferInput& input, const FusedLinearOperands& places) {
  const tensor::Dim k = last_dim(input.operands[0]);
  if (places.norm_weight >= 0) {
    const Type& weight = input.operands[static_cast<size_t>(places.norm_weight)];
    FL_TRY(want(is_plain_float(weight) && has_shape(weight, {k}), OpKind::kFusedLinear, "norm_weight", weight,
                "a float vector of " + k.to_string()));
  }
  for (int i = 0; i < places.num_weights; ++i) {
    const Type& w = input.operands[static_cast<size_t>(places.first_weight + i)];
    FL_TRY(want(rank(w) == 2 && w.shape[1] == k, OpKind::kFusedLinear, "w_" + std::to_string(i), w,
                "[R, " + k.to_string() + "]"));
    const int bias = places.biases[static_cast<size_t>(i)];
    if (bias < 0) continue;
    const Type& b = input.operands[static_cast<size_t>(bias)];
    FL_TRY(want(is_plain_float(b) && has_shape(b, {w.shape[0]}), OpKind::kFusedLinear, "bias_" + std::to_string(i), b,
                "a float vector of " + w.shape[0].to_string()));
  }
  return ok_status();
}

Result<Types> infer(const InferInput& input) {
  FL_TRY(check_counts(input));
  const Type& x = input.operands[0];
  FL_TRY(want(is_f32(x) && rank(x) >= 1, OpKind::kFusedLinear, "x", x, "f32[T, K]"));
  const FusedLinearOperands places = fused_linear_operands(input.attributes);
  FL_TRY(check_weights(input, places));
  Types products;
  for (int i = 0; i < places.num_weights; ++i) {
    tensor::Shape shape = leading_dims(x);
    shape.push_back(input.operands[static_cast<size_t>(places.first_weight + i)].shape[0]);
    products.push_back(f32(std::move(shape)));
  }
  const std::vector<Expression>& epilogue = input.attributes.get_expressions("epilogue");
  if (epilogue.empty()) {
    FL_TRY(want_attribute(places.num_extras == 0, OpKind::kFusedLinear, "num_extras", std::to_string(places.num_extras),
                          "0 without an epilogue"));
    return products;
  }
  for (int i = 1; i < places.num_weights; ++i) {
    FL_TRY(want(products[static_cast<size_t>(i)] == products[0], OpKind::kFusedLinear, "w_" + std::to_string(i),
                input.operands[static_cast<size_t>(places.first_weight + i)], "as many rows as w_0"));
  }
  for (int i = 0; i < places.num_extras; ++i) {
    const Type& extra = input.operands[static_cast<size_t>(places.first_extra + i)];
    const bool fits = has_shape(extra, products[0].shape) || has_shape(extra, {last_dim(products[0])});
    FL_TRY(want(is_plain_float(extra) && fits, OpKind::kFusedLinear, "extra_" + std::to_string(i), extra,
                products[0].to_string() + " or its last axis"));
  }
  for (const Expression& e : epilogue) {
    FL_TRY(want_attribute(!e.empty() && e.num_inputs() <= places.num_weights + places.num_extras, OpKind::kFusedLinear,
                          "epilogue", e.to_string(), "formulas in the products and extras"));
  }
  return Types(epilogue.size(), products[0]);
}

DecomposeResult decompose(DecomposeBuilder& builder, std::span<const DecomposeBuilder::Value> operands,
                          const Attributes& attributes) {
  using Value = DecomposeBuilder::Value;
  const FusedLinearOperands places = fused_linear_operands(attributes);
  Value rows = operands[0];
  if (attributes.get_string("norm") == "rms") {
    Attributes norm;
    norm.set("eps", attributes.get_float("norm_eps"));
    norm.set("offset", attributes.get_float("norm_offset"));
    std::vector<Value> inputs = {rows};
    if (places.norm_weight >= 0) inputs.push_back(operands[static_cast<size_t>(places.norm_weight)]);
    rows = builder.emit(OpKind::kRmsNorm, inputs, std::move(norm));
  }
  Attributes linear;
  linear.set("compute", attributes.get_string("compute"));
  std::vector<Value> products;
  for (int i = 0; i < places.num_weights; ++i) {
    std::vector<Value> inputs = {rows, operands[static_cast<size_t>(places.first_weight + i)]};
    const int bias = places.biases[static_cast<size_t>(i)];
    if (bias >= 0) inputs.push_back(operands[static_cast<size_t>(bias)]);
    products.push_back(builder.emit(OpKind::kLinear, inputs, linear));
  }
  const std::vector<Expression>& epilogue = attributes.get_expressions("epilogue");
  if (epilogue.empty()) return products;
  const auto extras = operands.subspan(static_cast<size_t>(places.first_extra));
  products.insert(products.end(), extras.begin(), extras.end());
  std::vector<Value> results;
  for (const Expression& e : epilogue) {
    Attributes map;
    map.set("expr", e);
    results.push_back(builder.emit(OpKind::kMap, products, std::move(map)));
  }
  return results;
}

std::vector<ShardRule> shard(const InferInput& input) {
  const FusedLinearOperands places = fused_linear_operands(input.attributes);
  const int last = rank(input.operands[0]) - 1;
  ShardRule rule{"rows", std::vector<int>(input.operands.size(), 0), {}, false};
  rule.operand_axes[0] = -1;
  if (places.norm_weight >= 0) rule.operand_axes[1] = -1;
  for (int i = 0; i < places.num_extras; ++i) {
    const auto at = static_cast<size_t>(places.first_extra + i);
    rule.operand_axes[at] = rank(input.operands[at]) - 1;
  }
  const size_t epilogue = input.attributes.get_expressions("epilogue").size();
  rule.result_axes.assign(epilogue == 0 ? static_cast<size_t>(places.num_weights) : epilogue, last);
  return {rule};
}

Cost cost(const InferInput& input, std::span<const Type> results, const tensor::SymbolValues& values) {
  const FusedLinearOperands places = fused_linear_operands(input.attributes);
  Cost cost = elementwise_cost(input, results, values, 0);
  const auto x = static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  for (int i = 0; i < places.num_weights; ++i) {
    cost.operations +=
        2 * x * static_cast<double>(input.operands[static_cast<size_t>(places.first_weight + i)].shape[0].factor);
  }
  return cost;
}

}  // namespace

OpDef fused_linear_def() {
  OpDef def;
  def.kind = OpKind::kFusedLinear;
  def.name = "fused_linear";
  def.operands = {{"x"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {
      {"num_weights", AttributeType::kInt, true, {}, "n, 1 or more"},
      {"norm", AttributeType::kString, false, std::string("none"), "\"none\" or \"rms\""},
      {"norm_eps", AttributeType::kFloat, false, 0.0, "as rms_norm's eps"},
      {"norm_offset", AttributeType::kFloat, false, 0.0, "as rms_norm's offset"},
      {"norm_weighted", AttributeType::kBool, false, false, "whether operand 1 is the norm's weight"},
      {"bias", AttributeType::kInts, true, {}, "one 0 or 1 per weight: whether it has a bias"},
      {"num_extras", AttributeType::kInt, false, int64_t{0}, "further inputs of the epilogue"},
      {"epilogue", AttributeType::kExpressions, false, std::vector<Expression>{},
       "one formula per result in x0.. = products, then extras; empty: the products themselves"},
      {"compute", AttributeType::kString, false, std::string("auto"),
       "\"auto\", or the mode: \"f32\" raises it for good"},
  };
  def.meaning =
      "h = norm is \"rms\" ? rms_norm(x, norm_weight) : x; a_i = linear(h, w_i, bias_i). Results: a_0 .. a_{n-1}, or "
      "one "
      "per formula of the epilogue. Operands: x, [norm_weight], w_0 .. w_{n-1}, the biases that exist, the extras.";
  def.rounding = "as its parts, without rounding between them beyond float32";
  def.elementwise_rows = true;
  def.infer = infer;
  def.decompose = decompose;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "of its decomposition";
  return def;
}

}  // namespace firstlight::ops
