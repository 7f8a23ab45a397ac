// SPDX-License-Identifier: Apache-2.0
#include "planner/tensor_list.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight::planner {
namespace {

std::string list_of(const std::string& entry, const std::string& more = "") {
  return "{" + more + "\"tensors\": [" + entry + "]}";
}

TEST(TensorList, PatternsRunOverTheirNumbers) {
  const auto list = parse_tensor_list(list_of(
      R"({"name": "l.{L}.e.{E}.w", "shape": [4, 3], "dtype": "BF16", "L": "0,2-3", "E": "1-7:3"},
         {"name": "scale", "shape": [], "dtype": "F32"})",
      R"("tensor_count": 10, "element_count": 109, "total_bytes": 220,)"));
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_EQ(list->tensors.size(), 10u);
  EXPECT_EQ(list->tensors[0].name, "l.0.e.1.w");
  EXPECT_EQ(list->tensors[1].name, "l.0.e.4.w");
  EXPECT_EQ(list->tensors[8].name, "l.3.e.7.w");
  EXPECT_EQ(list->tensors[9].shape.size(), 0u);
  EXPECT_EQ(list->bytes, 9 * 24 + 4);
}

TEST(TensorList, WhatIsWrongIsNamed) {
  const auto message = [](const std::string& text) { return parse_tensor_list(text).status().message(); };
  const std::string tail = R"(, "shape": [2], "dtype": "BF16")";
  EXPECT_NE(message("[]").find("'tensors'"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"shape": [2]})")).find("no name"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a.{L}")" + tail + "}")).find("no range L"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a", "L": "0-3")" + tail + "}")).find("no {L}"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a.{L}", "L": "3-0")" + tail + "}")).find("range '3-0'"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a.{L}", "L": "0-9:0")" + tail + "}")).find("range"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a.{L}", "L": "0-1x")" + tail + "}")).find("range"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a.{L}{E}", "L": "0-9999", "E": "0-9999")" + tail + "}")).find("at most"),
            std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a", "shape": [-1], "dtype": "BF16"})")).find("shape"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a", "shape": [2], "dtype": "Q9"})")).find("Q9"), std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a")" + tail + R"(}, {"name": "a")" + tail + "}")).find("twice"),
            std::string::npos);
  EXPECT_NE(message(list_of(R"({"name": "a")" + tail + "}", "\"total_bytes\": 5,")).find("holds 4"), std::string::npos);
}

TEST(TensorList, ManifestsOfRealCheckpointsSumUp) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/tensor-manifests";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: tensor-manifests";
  int lists = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string text = read_text_file(entry.path().string()).value();
    const auto list = parse_tensor_list(text);
    ASSERT_TRUE(list.ok()) << entry.path() << ": " << list.status().message();
    const Json stated = parse_json(text).value();
    EXPECT_EQ(static_cast<int64_t>(list->tensors.size()), stated["tensor_count"].get<int64_t>());
    EXPECT_EQ(list->elements, stated["element_count"].get<int64_t>());
    EXPECT_EQ(list->bytes, stated["total_bytes"].get<int64_t>());
    ++lists;
  }
  EXPECT_GE(lists, 7);
}

}  // namespace
}  // namespace firstlight::planner
