// SPDX-License-Identifier: Apache-2.0
#include "gates/targets.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

TEST(Targets, SayWhatIsWantedWhere) {
  const auto targets = parse_targets(R"(
    rounds = 5
    decode_tokens = 16
    memory_mb = 400.5
    [[point]]
    prompt = 128
    depth = 1024
    batch = 4
    ttft_s = 0.5
    decode_tps = 40
    [[point]]
    prompt_tps = 300
  )");
  ASSERT_TRUE(targets.ok()) << targets.status().message();
  EXPECT_EQ(targets->rounds, 5);
  EXPECT_EQ(targets->decode_tokens, 16);
  EXPECT_EQ(targets->memory_mb, 400.5);
  ASSERT_EQ(targets->points.size(), 2u);
  EXPECT_EQ(targets->points[0].prompt, 128);
  EXPECT_EQ(targets->points[0].depth, 1024);
  EXPECT_EQ(targets->points[0].batch, 4);
  EXPECT_EQ(targets->points[0].ttft_s, 0.5);
  EXPECT_EQ(targets->points[0].decode_tps, 40);
  EXPECT_FALSE(targets->points[0].prompt_tps.has_value());
  EXPECT_EQ(targets->points[1].prompt, 512) << "where nothing is said";
}

TEST(Targets, WhatIsNoneIsRefusedByNameValueAndWish) {
  struct Case {
    const char* text;
    std::vector<const char*> words;
  };
  for (const Case& one : {Case{"", {"nothing is wanted"}},
                          {"rounds = 3", {"nothing is wanted"}},
                          {"rounds = 0\nmemory_mb = 1", {"'rounds'", "0", "1 to 100"}},
                          {"memory_mb = -4", {"'memory_mb'", "-4", "above 0"}},
                          {"memory_mb = \"much\"", {"'memory_mb'", "much", "a number"}},
                          {"memory_mb = inf", {"'memory_mb'", "above 0"}},
                          {"speed = 4", {"'speed'", "4", "memory_mb"}},
                          {"point = 4", {"'point'", "4"}},
                          {"point = [4]", {"'point'", "4", "tables"}},
                          {"[[point]]\nprompt = 3", {"point 1", "nothing is wanted"}},
                          {"[[point]]\ndecode_tps = 1\n[[point]]\ntpot = 2", {"point 2", "'tpot'", "decode_tps"}},
                          {"[[point]]\nprompt = 0\ndecode_tps = 1", {"'prompt'", "0", "from 1"}},
                          {"[[point]]\nprompt = 1.5\ndecode_tps = 1", {"'prompt'", "1.5", "whole number"}},
                          {"[[point]]\ndepth = -1\ndecode_tps = 1", {"'depth'", "-1"}},
                          {"[[point]]\nbatch = 99999999\ndecode_tps = 1", {"'batch'", "99999999"}},
                          {"[[point]]\ndecode_tps = 0", {"'decode_tps'", "0", "above 0"}},
                          {"[[point]]\nttft_s = [1]", {"'ttft_s'", "[1]"}},
                          {"rounds = = 3", {"line 1"}}}) {
    const std::string text = one.text;
    const auto targets = parse_targets(text);
    EXPECT_EQ(targets.status().code(), StatusCode::kInvalidData) << text;
    for (const char* word : one.words)
      EXPECT_NE(targets.status().message().find(word), std::string::npos) << text << ": " << targets.status().message();
  }
}

TEST(Targets, OfAFileNameIt) {
  EXPECT_EQ(read_targets("/no/such/file").status().code(), StatusCode::kNotFound);
  const adapt::TestFolder folder;
  adapt::write_text(folder / "t.toml", "memory_mb = 0");
  EXPECT_NE(read_targets(folder / "t.toml").status().message().find("t.toml"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::gates
