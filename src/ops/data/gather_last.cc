// SPDX-License-Identifier: Apache-2.0
// gather_last: elements of the last axis by index; router weights of the chosen experts.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const tensor::Type& idx = input.operands[1];
  FL_TRY(want(is_plain(x) && rank(x) >= 1, OpKind::kGatherLast, "x", x, "a plain tensor of rank 1 or more"));
  FL_TRY(want(is_i32(idx) && rank(idx) == rank(x) && leading_dims(idx) == leading_dims(x), OpKind::kGatherLast, "idx",
              idx, "i32 with the leading axes of " + x.to_string()));
  return Types{tensor::Type::tensor(x.dtype, idx.shape)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  if (rank(input.operands[0]) < 2) return {};
  return {{"tokens", {0, 0}, {0}, false}};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const double written = type_bytes(results[0], values);
  return {0, written + type_bytes(input.operands[1], values), written};
}

}  // namespace

OpDef gather_last_def() {
  OpDef def;
  def.kind = OpKind::kGatherLast;
  def.name = "gather_last";
  def.operands = {{"x"}, {"idx"}};
  def.meaning = "y[.., j] = x[.., idx[.., j]], of x's type. An index outside the axis gives zero.";
  def.rounding = "none";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[.., idx[.., j]] += dy[.., j]";
  return def;
}

}  // namespace firstlight::ops
