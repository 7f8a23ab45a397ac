// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "formats/gguf.h"

namespace firstlight::formats {
namespace {

TEST(GgmlTypes, BlocksOfOurTypesAgreeWithOurTable) {
  int num_ours = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const GgmlType* type = find_ggml_type(id);
    if (type == nullptr) continue;
    EXPECT_EQ(type->id, id);
    if (!type->dtype) continue;
    ++num_ours;
    EXPECT_EQ(type->block_elements, tensor::dtype_info(*type->dtype).block_elements) << type->name;
    EXPECT_EQ(type->block_bytes, tensor::dtype_info(*type->dtype).block_bytes) << type->name;
    EXPECT_EQ(find_ggml_type(*type->dtype), type);
  }
  EXPECT_EQ(num_ours, 17);
}

TEST(GgmlTypes, WithdrawnAndUnknownOnesAreNone) {
  for (const uint32_t id : {4u, 5u, 31u, 36u, 99u}) EXPECT_EQ(find_ggml_type(id), nullptr);
  EXPECT_EQ(find_ggml_type(tensor::DType::kF8E4M3), nullptr);
}

}  // namespace
}  // namespace firstlight::formats
