// SPDX-License-Identifier: Apache-2.0
#include "compiler/fused_linear.h"

#include "base/check.h"

namespace firstlight::compiler {

FusedLinear take_apart(const ir::Node& node) {
  FL_CHECK(node.op == ops::OpKind::kFusedLinear);
  const ops::Attributes& attributes = node.attributes;
  FusedLinear fused;
  size_t next = 0;
  fused.x = node.operands[next++];
  fused.norm = attributes.get_string("norm") != "none";
  fused.norm_eps = attributes.get_float("norm_eps");
  fused.norm_offset = attributes.get_float("norm_offset");
  if (attributes.get_bool("norm_weighted")) fused.norm_weight = node.operands[next++];
  for (int64_t i = 0; i < attributes.get_int("num_weights"); ++i) fused.weights.push_back(node.operands[next++]);
  for (const int64_t has_bias : attributes.get_ints("bias")) {
    fused.biases.push_back(has_bias != 0 ? std::optional(node.operands[next++]) : std::nullopt);
  }
  for (int64_t i = 0; i < attributes.get_int("num_extras"); ++i) fused.extras.push_back(node.operands[next++]);
  FL_CHECK(next == node.operands.size());
  fused.epilogue = attributes.get_expressions("epilogue");
  fused.compute = attributes.get_string("compute");
  return fused;
}

std::vector<ir::ValueId> operands_of(const FusedLinear& fused) {
  std::vector<ir::ValueId> operands = {fused.x};
  if (fused.norm_weight) operands.push_back(*fused.norm_weight);
  operands.insert(operands.end(), fused.weights.begin(), fused.weights.end());
  for (const auto& bias : fused.biases) {
    if (bias) operands.push_back(*bias);
  }
  operands.insert(operands.end(), fused.extras.begin(), fused.extras.end());
  return operands;
}

ops::Attributes attributes_of(const FusedLinear& fused) {
  ops::Attributes attributes;
  std::vector<int64_t> has_bias;
  for (const auto& bias : fused.biases) has_bias.push_back(bias.has_value() ? 1 : 0);
  attributes.set("num_weights", static_cast<int64_t>(fused.weights.size()));
  attributes.set("norm", std::string(fused.norm ? "rms" : "none"));
  attributes.set("norm_eps", fused.norm_eps);
  attributes.set("norm_offset", fused.norm_offset);
  attributes.set("norm_weighted", fused.norm_weight.has_value());
  attributes.set("bias", has_bias);
  attributes.set("num_extras", static_cast<int64_t>(fused.extras.size()));
  attributes.set("epilogue", fused.epilogue);
  attributes.set("compute", fused.compute);
  return attributes;
}

}  // namespace firstlight::compiler
