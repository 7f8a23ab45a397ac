// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

TEST(SafetensorsIndex, MapsTensorsToFiles) {
  const auto index = parse_safetensors_index(R"({"metadata":{"total_size":12},"weight_map":{"a":"x.st","b":"y.st"}})");
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->total_size, 12u);
  EXPECT_EQ(index->weight_map.at("b"), "y.st");
  EXPECT_EQ(parse_safetensors_index(R"({"metadata":{"total_size":1.5e3},"weight_map":{}})")->total_size, 1500u);
  EXPECT_EQ(parse_safetensors_index(R"({"weight_map":{}})")->total_size, std::nullopt);
  EXPECT_EQ(parse_safetensors_index(R"({"metadata":{"total_size":-1},"weight_map":{}})")->total_size, std::nullopt);
}

TEST(SafetensorsIndex, RefusesWhatIsNoIndex) {
  for (const char* text : {"", "[]", "{", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})"}) {
    EXPECT_EQ(parse_safetensors_index(text).code(), StatusCode::kInvalidData) << text;
  }
  EXPECT_HAS(parse_safetensors_index(R"({"weight_map":{"a":"x","a":"y"}})").status().message(), "occurs twice");
}

TEST(SafetensorsIndex, ShardsLieBesideTheIndex) {
  for (const char* file : {"", ".", "..", "../x.safetensors", "/etc/passwd", "sub/x.safetensors", "x\\u0000y"}) {
    const auto index = parse_safetensors_index(R"({"weight_map":{"a":")" + std::string(file) + "\"}}");
    EXPECT_EQ(index.code(), StatusCode::kInvalidData) << file;
  }
}

}  // namespace
}  // namespace firstlight::formats
