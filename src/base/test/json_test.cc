// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

namespace firstlight {
namespace {

TEST(Json, KeepsKeyOrder) {
  EXPECT_EQ(dump_json(parse_json(R"({"b":1,"a":[null]})").value()), R"({"b":1,"a":[null]})");
}

TEST(Json, ErrorsNameThePlace) {
  const auto result = parse_json("{\"a\": }");
  ASSERT_EQ(result.code(), StatusCode::kInvalidData);
  EXPECT_NE(result.status().message().find("line 1, column 7"), std::string::npos) << result.status().message();
  EXPECT_EQ(parse_json("").code(), StatusCode::kInvalidData);
  EXPECT_EQ(parse_json("{} x").code(), StatusCode::kInvalidData);
  EXPECT_EQ(parse_json("\"\xff\"").code(), StatusCode::kInvalidData);
}

TEST(Json, DepthIsBounded) {
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']')).ok());
  EXPECT_EQ(parse_json(std::string(100000, '[') + std::string(100000, ']')).code(), StatusCode::kInvalidData);
  EXPECT_EQ(parse_json(std::string(100000, '[')).code(), StatusCode::kInvalidData);
}

}  // namespace
}  // namespace firstlight
