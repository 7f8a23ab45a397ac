// SPDX-License-Identifier: Apache-2.0
#include "formats/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

std::string refusal(const std::string& text) {
  const auto config = parse_config(text);
  EXPECT_EQ(config.code(), StatusCode::kInvalidData) << text.substr(0, 200);
  return config.ok() ? "" : config.status().message();
}

TEST(Config, KeysKeepTheirOrderAndTheirTypes) {
  const auto config = parse_config(R"({"z":1,"a":1.0,"m":null,"eps":1e-06,"nested":{"k":[1,2]}})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->begin().key(), "z");
  EXPECT_TRUE((*config)["z"].is_number_integer());
  EXPECT_TRUE((*config)["a"].is_number_float());
  EXPECT_TRUE((*config)["m"].is_null());
  EXPECT_EQ((*config)["eps"].get<double>(), 1e-06);
}

TEST(Config, WhatPythonWritesForNumbersThatJsonLacks) {
  const auto config = parse_config(R"({"limit":[0.0, Infinity],"low":-Infinity,"nan":NaN,"text":"NaN \" Infinity"})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ((*config)["limit"][1].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ((*config)["low"].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*config)["nan"].get<double>()));
  EXPECT_EQ((*config)["text"], "NaN \" Infinity");
  for (const char* text : {"{\"a\":+Infinity}", "{\"a\":--Infinity}", "{\"a\":NaNa}", "{\"a\":xNaN}", "{NaN:1}",
                           "{\"a\":1NaN}", "{\"a\":\"\\u0000number NaN\"}"}) {
    refusal(text);
  }
}

TEST(Config, AKeyThatOccursTwiceIsRefused) {
  EXPECT_HAS(refusal(R"({"a":1,"b":2,"a":3})"), "key \"a\" occurs twice");
  EXPECT_HAS(refusal(R"({"x":[{"a":1,"a":1}]})"), "key \"a\" occurs twice");
  EXPECT_TRUE(parse_config(R"({"a":{"a":1},"b":{"a":1}})").ok());
}

TEST(Config, OnlyOneObject) {
  for (const char* text : {"", "[]", "1", "null", "{", "{}x", "{\"a\":}", "{\"a\":1,}", "{\"\xff\":1}", "{'a':1}"}) {
    refusal(text);
  }
  EXPECT_TRUE(parse_config("\xef\xbb\xbf{}\n").ok());
}

TEST(Config, LimitsOfDepthKeysAndSize) {
  std::string deep = "{\"a\":";
  deep += std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_HAS(refusal(deep), "deeper than 64");
  std::string wide = "{";
  for (int i = 0; i < 20001; ++i) wide += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  EXPECT_HAS(refusal(wide + "}"), "more than 20000 keys");
  EXPECT_HAS(refusal("{\"a\":\"" + std::string(17 << 20, 'x') + "\"}"), "at most 16777216");
}

TEST(Config, FilesAreNamed) {
  const Scratch scratch;
  EXPECT_EQ(read_config(scratch.path("config.json")).code(), StatusCode::kNotFound);
  const std::string path = scratch.write("config.json", "{\n  \"a\": }");
  const auto config = read_config(path);
  EXPECT_EQ(config.code(), StatusCode::kInvalidData);
  EXPECT_HAS(config.status().message(), path);
  EXPECT_HAS(config.status().message(), "line 2");
}

TEST(Config, TheConfigsOfADirectory) {
  const Scratch scratch;
  const auto read = [&] { return read_model_configs(HfDirectory::scan(scratch.path()).value()); };
  EXPECT_EQ(read().code(), StatusCode::kNotFound);
  scratch.write("config.json", R"({"model_type":"llama"})");
  EXPECT_EQ(read()->quantization_config, std::nullopt);
  scratch.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})");
  scratch.write("generation_config.json", R"({"eos_token_id":[1,2]})");
  EXPECT_EQ(read()->quantization_source, scratch.path("hf_quant_config.json"));
  EXPECT_EQ((*read()->generation_config)["eos_token_id"].size(), 2u);
  scratch.write("config.json", R"({"quantization_config":{"quant_method":"fp8"}})");
  EXPECT_EQ(read()->quantization_source, "quantization_config");
  EXPECT_TRUE(read()->config.contains("quantization_config"));
  scratch.write("generation_config.json", "{");
  EXPECT_EQ(read().code(), StatusCode::kInvalidData);
}

TEST(Config, EveryReleasedConfigIsRead) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/configs";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: configs";
  int num_configs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with("config.json")) continue;
    const auto config = read_config(entry.path().string());
    EXPECT_TRUE(config.ok()) << config.status().message();
    ++num_configs;
  }
  EXPECT_GT(num_configs, 100);
}

}  // namespace
}  // namespace firstlight::formats
