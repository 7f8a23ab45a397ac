// SPDX-License-Identifier: Apache-2.0
// pack_weight: a weight matrix in the layout that the CPU's matrix kernels read.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& w = input.operands[0];
  FL_TRY(want(w.layout == tensor::Layout::kRowMajor && rank(w) >= 2 && tensor::is_static(w.shape), OpKind::kPackWeight,
              "w", w, "a row-major tensor [.., R, K] of constant size"));
  tensor::Type packed = w;
  packed.layout = tensor::Layout::kPackedRows;
  return Types{std::move(packed)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i < rank(input.operands[0]); ++i) rules.push_back({"axis", {i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef pack_weight_def() {
  OpDef def;
  def.kind = OpKind::kPackWeight;
  def.name = "pack_weight";
  def.operands = {{"w"}};
  def.meaning = "The same matrix, [.., R, K], in the packed layout of its element type (CPU only).";
  def.rounding = "none: codes are moved";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: a stored weight";
  return def;
}

}  // namespace firstlight::ops
