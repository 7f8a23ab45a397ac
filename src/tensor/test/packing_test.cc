// SPDX-License-Identifier: Apache-2.0
#include "tensor/packing.h"

#include <gtest/gtest.h>

namespace firstlight::tensor {
namespace {

Type packed(DType dtype, Shape shape) {
  Type type = Type::tensor(dtype, std::move(shape));
  type.layout = Layout::kPackedRows;
  return type;
}

TEST(Packing, PlainTypesPadRowsToATileAndColumnsToAPair) {
  EXPECT_EQ(packed_matrix_bytes(DType::kF32, 16, 10), 16 * 10 * 4);
  EXPECT_EQ(packed_matrix_bytes(DType::kF32, 17, 10), 2 * 16 * 10 * 4);
  EXPECT_EQ(packed_tile_bytes(DType::kBF16, 5), 16 * 6 * 2);
  EXPECT_EQ(packed_tile_bytes(DType::kF8E4M3, 8), 16 * 8 * 2);  // widened to bfloat16
}

// Codes are moved, so that a tile of 16 rows is as large as the rows in the file, up to minima and padding.
TEST(Packing, BlockFormatsKeepTheirSize) {
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kMXFP4}) {
    const int64_t stored = 16 * *row_bytes(type, 512);
    EXPECT_EQ(packed_tile_bytes(type, 512), (stored + 63) / 64 * 64) << dtype_name(type);
  }
  for (const DType type : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const int64_t stored = 16 * *row_bytes(type, 512);
    EXPECT_GE(packed_tile_bytes(type, 512), stored) << dtype_name(type);
    EXPECT_LE(packed_tile_bytes(type, 512), stored * 11 / 10) << dtype_name(type);
  }
}

TEST(Packing, StacksAreMatricesOneAfterAnother) {
  EXPECT_EQ(packed_bytes(packed(DType::kQ4_0, {3, 20, 64})), 3 * packed_matrix_bytes(DType::kQ4_0, 20, 64));
  EXPECT_EQ(packed_bytes(packed(DType::kF32, {20, 64})), packed_matrix_bytes(DType::kF32, 20, 64));
}

TEST(Packing, KnowsWhatItCanNotPack) {
  EXPECT_TRUE(can_pack(DType::kF16));
  EXPECT_FALSE(can_pack(DType::kI32));
  EXPECT_FALSE(can_pack(DType::kF64));
  EXPECT_DEATH(packed_bytes(Type::tensor(DType::kF32, {4, 4})), "");
}

}  // namespace
}  // namespace firstlight::tensor
