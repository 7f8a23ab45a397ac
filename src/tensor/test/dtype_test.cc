// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace firstlight::tensor {
namespace {

TEST(DType, NamesGoBothWays) {
  for (int i = 0; i <= static_cast<int>(DType::kQ4_1S); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type) << dtype_name(type);
    const DTypeInfo& info = dtype_info(type);
    EXPECT_EQ(info.is_float + info.is_integer + info.is_quantised, 1) << info.name;
  }
  EXPECT_EQ(dtype_name(DType::kQ6_K), "q6_k");
  EXPECT_EQ(dtype_from_name("F32"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, RowBytesWantsWholeBlocksAndDoesNotOverflow) {
  EXPECT_EQ(row_bytes(DType::kF32, 3), 12);
  EXPECT_EQ(row_bytes(DType::kQ4_1, 64), 40);
  EXPECT_EQ(row_bytes(DType::kQ6_K, 512), 420);
  EXPECT_EQ(row_bytes(DType::kMXFP4, 32), 17);
  EXPECT_EQ(row_bytes(DType::kInt4G, 64), 42);
  EXPECT_EQ(row_bytes(DType::kInt8G, 64), 74);
  EXPECT_EQ(row_bytes(DType::kFP8G, 64), 72);
  EXPECT_EQ(row_bytes(DType::kNVFP4, 128), 80);
  EXPECT_EQ(row_bytes(DType::kNVFP4, 96), std::nullopt);
  EXPECT_EQ(row_bytes(DType::kF4E2M1, 6), 3);
  EXPECT_EQ(row_bytes(DType::kF64, 0), 0);
  EXPECT_EQ(row_bytes(DType::kQ4_1, 33), std::nullopt);
  EXPECT_EQ(row_bytes(DType::kF32, -1), std::nullopt);
  EXPECT_EQ(row_bytes(DType::kF64, std::numeric_limits<int64_t>::max()), std::nullopt);
}

}  // namespace
}  // namespace firstlight::tensor
