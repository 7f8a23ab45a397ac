// SPDX-License-Identifier: Apache-2.0
#include "tensor/packing.h"

#include "base/check.h"

namespace firstlight::tensor {
namespace {

bool is_block_format(DType type) { return packed_block_layout(type).code_bytes > 0; }

}  // namespace

bool can_pack(DType type) {
  return is_block_format(type) || type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
         type == DType::kF8E4M3 || type == DType::kF8E5M2;
}

int64_t packed_tile_bytes(DType type, int64_t columns) {
  FL_CHECK(can_pack(type));
  int64_t bytes = 0;
  if (is_block_format(type)) {
    const PackedBlockLayout layout = packed_block_layout(type);
    const int64_t group_columns = kBlockColumns * layout.group_blocks;
    FL_CHECK(columns % group_columns == 0);
    bytes = columns / group_columns * layout.group_bytes();
  } else {
    bytes = (columns + 1) / 2 * 2 * kTileRows * (type == DType::kF32 ? 4 : 2);
  }
  return (bytes + 63) / 64 * 64;
}

int64_t packed_matrix_bytes(DType type, int64_t rows, int64_t columns) {
  return (rows + kTileRows - 1) / kTileRows * packed_tile_bytes(type, columns);
}

int64_t packed_bytes(const Type& type) {
  FL_CHECK(type.layout == Layout::kPackedRows && type.shape.size() >= 2 && is_static(type.shape));
  const size_t rank = type.shape.size();
  int64_t bytes = packed_matrix_bytes(type.dtype, type.shape[rank - 2].factor, type.shape[rank - 1].factor);
  for (size_t i = 0; i + 2 < rank; ++i) FL_CHECK(!__builtin_mul_overflow(bytes, type.shape[i].factor, &bytes));
  return bytes;
}

}  // namespace firstlight::tensor
