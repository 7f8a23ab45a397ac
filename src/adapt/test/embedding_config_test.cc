// SPDX-License-Identifier: Apache-2.0
#include "adapt/embedding_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;
using request::Pooling;

constexpr const char* kModules =
    R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";

std::string folder_with(const std::string& modules, const std::string& pooling) {
  const fs::path folder = fs::path(testing::TempDir()) / "embedding_config";
  fs::remove_all(folder);
  fs::create_directories(folder / "1_Pooling");
  if (!modules.empty()) std::ofstream(folder / "modules.json") << modules;
  std::ofstream(folder / "1_Pooling/config.json") << pooling;
  return folder.string();
}

TEST(EmbeddingConfig, FollowsTheModules) {
  const std::string normalize =
      R"(, {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
  auto config = read_embedding_config(
      folder_with(kModules + normalize, R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->pooling, Pooling::kMean);
  EXPECT_TRUE(config->normalise);
  EXPECT_TRUE(config->source.ends_with("modules.json"));
  config = read_embedding_config(folder_with(std::string(kModules) + "]", R"({"pooling_mode": "lasttoken"})"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->pooling, Pooling::kLast);
  EXPECT_FALSE(config->normalise);
  config = read_embedding_config(folder_with(std::string(kModules) + "]", R"({"pooling_mode_cls_token": true})"));
  EXPECT_EQ(config->pooling, Pooling::kFirst);
}

TEST(EmbeddingConfig, WithoutFilesTheLastTokenNormalised) {
  const auto config = read_embedding_config(folder_with("", ""));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->pooling, Pooling::kLast);
  EXPECT_TRUE(config->normalise);
  EXPECT_TRUE(config->source.empty());
}

TEST(EmbeddingConfig, WhatIsNotComputedIsRefusedByName) {
  const auto message = [](const std::string& modules, const std::string& pooling) {
    return read_embedding_config(folder_with(modules, pooling)).status().message();
  };
  const std::string modules = std::string(kModules) + "]";
  EXPECT_NE(message(modules, R"({"pooling_mode_max_tokens": true})").find("max_tokens"), std::string::npos);
  EXPECT_NE(message(modules, R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})").find("at once"),
            std::string::npos);
  EXPECT_NE(message(modules, "{").find("config.json"), std::string::npos);
  EXPECT_NE(message("{}", "").find("array"), std::string::npos);
  EXPECT_NE(message(R"([{"type": "sentence_transformers.models.Dense"}])", "").find("'Dense'"), std::string::npos);
  EXPECT_NE(message(R"([{"type": "models.Pooling", "path": "../x"}])", "").find("no folder"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::adapt
