// SPDX-License-Identifier: Apache-2.0
#include "server/embeddings.h"

#include <gtest/gtest.h>

namespace firstlight::server {
namespace {

constexpr ServedEmbeddings kHow = {.pooling = request::Pooling::kMean, .normalise = false, .width = 8};

// What comes of the body, and the field at fault.
std::string fault_of(const std::string& body, EmbeddingRequest& request, ServedEmbeddings how = kHow) {
  const Json json = Json::parse(body);
  FieldReader fields(json);
  read_embedding_request(fields, how, {.max_inputs = 3}, request);
  fields.finish();
  return fields.error().param;
}

std::string fault_of(const std::string& body, ServedEmbeddings how = kHow) {
  EmbeddingRequest request;
  return fault_of(body, request, how);
}

TEST(EmbeddingRequest, InputsOfEveryShape) {
  EmbeddingRequest request;
  EXPECT_EQ(fault_of(R"({"input": "a", "model": "m"})", request), "");
  ASSERT_EQ(request.inputs.size(), 1u);
  EXPECT_EQ(std::get<std::string>(request.inputs[0]), "a");
  EXPECT_EQ(request.pooling, request::Pooling::kMean);
  EXPECT_FALSE(request.normalise || request.base64);
  EmbeddingRequest ids;
  EXPECT_EQ(fault_of(R"({"input": [3, 4], "encoding_format": "base64", "normalize": true, "pooling": "last"})", ids),
            "");
  ASSERT_EQ(ids.inputs.size(), 1u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(ids.inputs[0]), (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(ids.base64 && ids.normalise);
  EXPECT_EQ(ids.pooling, request::Pooling::kLast);
  EmbeddingRequest lists;
  EXPECT_EQ(fault_of(R"({"input": [[3], "b", [5, 6]]})", lists), "");
  EXPECT_EQ(lists.inputs.size(), 3u);
}

TEST(EmbeddingRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(fault_of("{}"), "input");
  for (const char* body : {R"({"input": ""})", R"({"input": []})", R"({"input": 3})", R"({"input": {}})",
                           R"({"input": ["a", "b", "c", "d"]})", R"({"input": [1, "a"]})"}) {
    EXPECT_TRUE(fault_of(body).starts_with("input")) << body;
  }
  EXPECT_EQ(fault_of(R"({"input": ["a", ""]})"), "input[1]");
  EXPECT_EQ(fault_of(R"({"input": ["a", 5]})"), "input[1]");
  EXPECT_EQ(fault_of(R"({"input": "a", "encoding_format": "int8"})"), "encoding_format");
  EXPECT_EQ(fault_of(R"({"input": "a", "pooling": "max"})"), "pooling");
  EXPECT_EQ(fault_of(R"({"input": "a", "x": 1})"), "x");
}

TEST(EmbeddingRequest, FewerDimensionsOnlyWhereTheyStandAlone) {
  EXPECT_EQ(fault_of(R"({"input": "a", "dimensions": 8})"), "");
  EXPECT_EQ(fault_of(R"({"input": "a", "dimensions": 4})"), "dimensions");
  EXPECT_EQ(fault_of(R"({"input": "a", "dimensions": 9})"), "dimensions");
  const Json none = Json::parse(R"({"input": "a", "dimensions": 0})");
  FieldReader fields(none);
  EmbeddingRequest request;
  read_embedding_request(fields, kHow, {}, request);
  EXPECT_EQ(fields.error().message, "dimensions: 0, 1 to 8 wanted");
  ServedEmbeddings how = kHow;
  how.may_shorten = true;
  EXPECT_EQ(fault_of(R"({"input": "a", "dimensions": 4})", how), "");
  EXPECT_EQ(fault_of(R"({"input": "a", "dimensions": 9})", how), "dimensions");
}

TEST(Base64, IsThatOfTheBytes) {
  EXPECT_EQ(base64_of({}), "");
  EXPECT_EQ(base64_of({1.0f}), "AACAPw==");
  EXPECT_EQ(base64_of({1.0f, -2.0f}), "AACAPwAAAMA=");
  EXPECT_EQ(base64_of({1.0f, -2.0f, 0.5f}), "AACAPwAAAMAAAAA/");
}

}  // namespace
}  // namespace firstlight::server
