// SPDX-License-Identifier: Apache-2.0
#include "tensor/type.h"

#include <gtest/gtest.h>

namespace firstlight::tensor {
namespace {

TEST(Type, PrintsDtypeShapeAndLayout) {
  EXPECT_EQ(Type::tensor(DType::kF32, {Dim(1, Symbol::kTokens), 576}).to_string(), "f32[T, 576]");
  EXPECT_EQ(Type::tensor(DType::kI32, {}).to_string(), "i32[]");
  EXPECT_EQ(Type::state().to_string(), "state");
  Type packed = Type::tensor(DType::kQ4_1, {576, 576});
  packed.layout = Layout::kPackedRows;
  EXPECT_EQ(packed.to_string(), "q4_1[576, 576] packed");
}

TEST(Type, EqualityLooksAtEverything) {
  const Type plain = Type::tensor(DType::kF32, {4, 8});
  Type other = plain;
  EXPECT_EQ(plain, other);
  other.layout = Layout::kPackedRows;
  EXPECT_NE(plain, other);
  EXPECT_NE(plain, Type::tensor(DType::kF16, {4, 8}));
  EXPECT_NE(plain, Type::tensor(DType::kF32, {8, 4}));
  EXPECT_NE(Type::tensor(DType::kF32, {}), Type::state());
}

TEST(Type, SizeCountsBlocksAndSymbols) {
  EXPECT_EQ(size_bytes(Type::tensor(DType::kF32, {})), 4);
  EXPECT_EQ(size_bytes(Type::tensor(DType::kBF16, {3, 5})), 30);
  EXPECT_EQ(size_bytes(Type::tensor(DType::kQ8_0, {2, 64})), 2 * 2 * 34);
  EXPECT_EQ(size_bytes(Type::tensor(DType::kF4E2M1, {3, 6})), 9);
  const Type rows = Type::tensor(DType::kF32, {Dim(2, Symbol::kTokens), 8});
  EXPECT_EQ(size_bytes(rows, {.tokens = 5}), 10 * 8 * 4);
  EXPECT_EQ(size_bytes(rows, {.tokens = 0}), 0);
}

TEST(TypeDeathTest, SizeRefusesWhatHasNone) {
  EXPECT_DEATH(size_bytes(Type::state()), "");
  EXPECT_DEATH(size_bytes(Type::tensor(DType::kQ8_0, {2, 33})), "");  // no whole blocks
  EXPECT_DEATH(size_bytes(Type::tensor(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40})), "");
  Type packed = Type::tensor(DType::kF32, {4, 4});
  packed.layout = Layout::kPackedRows;
  EXPECT_DEATH(size_bytes(packed), "");
}

}  // namespace
}  // namespace firstlight::tensor
