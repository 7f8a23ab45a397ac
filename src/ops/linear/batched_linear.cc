// SPDX-License-Identifier: Apache-2.0
// batched_linear: one weight matrix per head; absorbed projections of latent attention.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const tensor::Type& w = input.operands[1];
  FL_TRY(want(is_f32(x) && rank(x) == 3, OpKind::kBatchedLinear, "x", x, "f32[T, H, A]"));
  FL_TRY(want(!is_plain(w) || is_plain_float(w), OpKind::kBatchedLinear, "w", w, "floats, or a format of weights"));
  FL_TRY(want(rank(w) == 3 && w.shape[0] == x.shape[1] && w.shape[2] == x.shape[2], OpKind::kBatchedLinear, "w", w,
              "[" + x.shape[1].to_string() + ", B, " + x.shape[2].to_string() + "] (x is " + x.to_string() + ")"));
  return Types{f32({x.shape[0], x.shape[1], w.shape[1]})};
}

std::vector<ShardRule> shard(const InferInput&) {
  return {{"heads", {1, 0}, {1}, false},
          {"rows", {-1, 1}, {2}, false},
          {"columns", {2, 2}, {-1}, true},
          {"tokens", {0, -1}, {0}, false}};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const auto a = static_cast<double>(last_dim(input.operands[0]).at(values));
  return elementwise_cost(input, results, values, 2 * a);
}

}  // namespace

OpDef batched_linear_def() {
  OpDef def;
  def.kind = OpKind::kBatchedLinear;
  def.name = "batched_linear";
  def.operands = {{"x"}, {"w"}};
  def.attributes = {{"compute", AttributeType::kString, false, std::string("auto"),
                     "\"auto\", or the mode: \"f32\" raises it for good"}};
  def.meaning = "y[t, h, b] = sum over a of x[t, h, a] * w[h, b, a]; w of any type, decoded.";
  def.rounding = "as linear";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[t,h,:] = dy[t,h,:] w[h]; dw[h] = sum over t of dy[t,h,:]^T x[t,h,:]";
  return def;
}

}  // namespace firstlight::ops
