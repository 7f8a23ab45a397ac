// SPDX-License-Identifier: Apache-2.0
// gather_rows: rows of a table by index; the embedding lookup.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& table = input.operands[0];
  const tensor::Type& ids = input.operands[1];
  const auto row_major = table.layout == tensor::Layout::kRowMajor;
  FL_TRY(
      want(rank(table) >= 1 && row_major, OpKind::kGatherRows, "table", table, "a row-major tensor of rank 1 or more"));
  FL_TRY(want(rank(table) >= 2 || !is_block_format(table.dtype), OpKind::kGatherRows, "table", table,
              "rank 2 or more for a block format"));
  FL_TRY(want(is_i32(ids) && rank(ids) >= 1, OpKind::kGatherRows, "ids", ids, "i32[N]"));
  tensor::Shape shape = ids.shape;
  shape.insert(shape.end(), table.shape.begin() + 1, table.shape.end());
  const bool keeps = tensor::dtype_info(table.dtype).is_integer;
  return Types{tensor::Type::tensor(keeps ? table.dtype : tensor::DType::kF32, std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const int last = rank(input.operands[0]) - 1;
  std::vector<ShardRule> rules = {{"tokens", {-1, 0}, {0}, false}};
  if (last >= 1) rules.push_back({"columns", {last, -1}, {rank(input.operands[1]) + last - 1}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const double elements = static_cast<double>(tensor::num_elements(results[0].shape, values));
  const tensor::DTypeInfo& info = tensor::dtype_info(input.operands[0].dtype);
  const double rows = elements * static_cast<double>(info.block_bytes) / static_cast<double>(info.block_elements);
  return {0, rows + type_bytes(input.operands[1], values), type_bytes(results[0], values)};
}

}  // namespace

OpDef gather_rows_def() {
  OpDef def;
  def.kind = OpKind::kGatherRows;
  def.name = "gather_rows";
  def.operands = {{"table"}, {"ids"}};
  def.meaning =
      "y[n, ...] = table[ids[n], ...]. Float and block-quantised tables give float32 (decoded), integer tables keep "
      "their type. An index outside the table gives a row of zeros.";
  def.rounding = "none: decoding is exact in float32";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "d_table[ids[n], ...] += dy[n, ...]";
  return def;
}

}  // namespace firstlight::ops
