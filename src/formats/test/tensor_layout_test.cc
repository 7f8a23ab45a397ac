// SPDX-License-Identifier: Apache-2.0
#include "formats/tensor_layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

TensorRecord record(const std::string& name, uint64_t offset, uint64_t size) {
  TensorRecord result;
  result.name = name;
  result.offset = offset;
  result.size_bytes = size;
  return result;
}

std::string layout_error(std::vector<TensorRecord> records, const DataRegion& region) {
  const Status status = sort_and_check_layout(records, region);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidData);
  return status.message();
}

TEST(TensorLayout, FilledToTheLastByteInAnyOrder) {
  std::vector<TensorRecord> records = {record("b", 18, 2), record("a", 10, 8), record("empty", 18, 0)};
  ASSERT_TRUE(sort_and_check_layout(records, {.begin = 10, .file_size = 20}).ok());
  EXPECT_EQ(records[0].name, "a");
  EXPECT_EQ(records[1].name, "empty");
  EXPECT_EQ(records[2].name, "b");
}

TEST(TensorLayout, OverlapsHolesTrailingAndCutFilesAreNamed) {
  EXPECT_HAS(layout_error({record("a", 10, 8), record("b", 17, 2)}, {.begin = 10, .file_size = 19}),
             "tensor \"b\" begins at byte 17, inside tensor \"a\", which ends at byte 18");
  EXPECT_HAS(layout_error({record("a", 9, 8)}, {.begin = 10, .file_size = 17}), "inside the header");
  EXPECT_HAS(layout_error({record("a", 10, 8), record("b", 19, 1)}, {.begin = 10, .file_size = 20}),
             "1 bytes between the end of tensor \"a\" (byte 18) and tensor \"b\"");
  EXPECT_HAS(layout_error({record("a", 10, 8)}, {.begin = 10, .file_size = 21}),
             "3 trailing bytes: the data ends at byte 18, the file has 21 bytes");
  EXPECT_HAS(layout_error({record("a", 10, 8)}, {.begin = 10, .file_size = 17}),
             "8 bytes at byte 10 end past the end of the file (17 bytes)");
  EXPECT_HAS(layout_error({}, {.begin = 10, .file_size = 11}), "1 trailing bytes");
}

TEST(TensorLayout, PaddingBelowTheAlignmentIsNoHole) {
  const DataRegion region{.begin = 32, .file_size = 128, .alignment = 32};
  EXPECT_EQ(layout_error({record("a", 32, 10), record("b", 64, 40)}, region), "");
  EXPECT_HAS(layout_error({record("a", 32, 10), record("b", 96, 4)}, region), "belong to no tensor");
  EXPECT_HAS(layout_error({record("a", 32, 10)}, region), "trailing bytes");
}

TEST(TensorLayout, SizesNearTheEndOfTheNumbersDoNotWrap) {
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_HAS(layout_error({record("a", 0, huge)}, {.begin = 0, .file_size = 10}), "past the end");
  EXPECT_HAS(layout_error({record("a", 0, huge)}, {.begin = 0}), "past the end");
  EXPECT_HAS(layout_error({record("a", 0, huge / 2), record("b", huge / 2, huge / 2)}, {.begin = 0}), "past the end");
}

TEST(TensorLayout, ElementCounts) {
  EXPECT_EQ(count_elements(std::vector<int64_t>{}).value(), 1);
  EXPECT_EQ(count_elements(std::vector<int64_t>{2, 3, 4}).value(), 24);
  EXPECT_EQ(count_elements(std::vector<int64_t>{2, 0, 4}).value(), 0);
  EXPECT_EQ(count_elements(std::vector<int64_t>{2, -1}).code(), StatusCode::kInvalidData);
  const int64_t half = int64_t{1} << 32;
  EXPECT_EQ(count_elements(std::vector<int64_t>{half, half}).code(), StatusCode::kInvalidData);
  EXPECT_EQ(count_elements(std::vector<int64_t>{half, half, 0}).code(), StatusCode::kInvalidData);
  EXPECT_EQ(count_elements(std::vector<int64_t>{0, half, half}).code(), StatusCode::kInvalidData);
}

TEST(TensorLayout, ByteCounts) {
  EXPECT_EQ(count_bytes(64, 32, 20).value(), 40u);
  EXPECT_EQ(count_bytes(33, 32, 20).code(), StatusCode::kInvalidData);
  EXPECT_EQ(count_bytes(int64_t{1} << 62, 1, 8).code(), StatusCode::kInvalidData);
}

}  // namespace
}  // namespace firstlight::formats
