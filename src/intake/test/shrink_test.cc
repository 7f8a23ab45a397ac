// SPDX-License-Identifier: Apache-2.0
// Configs of the size of releases, written here, shrink to a few thousand weights and keep every feature; what a spec
// needs to stay together stays together, and nothing here knows the spec.
#include "intake/shrink.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file_map.h"

namespace firstlight::intake {
namespace {

const std::string kDense = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "num_hidden_layers": 32, "rms_norm_eps": 1e-5,
  "hidden_act": "silu", "vocab_size": 100000, "max_position_embeddings": 8192, "eos_token_id": [5, 6], "rope_theta": 500000.0})";

const std::string kSparse =
    R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168,
  "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
  "num_hidden_layers": 61, "rms_norm_eps": 1e-6, "hidden_act": "silu", "vocab_size": 129280, "max_position_embeddings": 4096,
  "rope_theta": 10000.0, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "n_shared_experts": 1,
  "first_k_dense_replace": 3, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
  "topk_method": "noaux_tc", "moe_layer_freq": 1, "quantization_config": {"quant_method": "fp8"}})";

const std::string kWindows = R"({"model_type": "gemma3_text", "hidden_size": 2304, "intermediate_size": 9216,
  "num_hidden_layers": 26, "sliding_window": 1024, "vocab_size": 200000})";

Shrunk shrunk(const std::string& config, int64_t vocabulary = 272, const std::string& spec = "") {
  const auto tree = parse_config_tree(config);
  ShrinkOptions options{.vocabulary = vocabulary, .intake = {}};
  options.intake.spec_file = spec;
  auto result = shrink_config(*tree, options);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? std::move(*result) : Shrunk{};
}

int64_t number(const Shrunk& shrunk, std::string_view key) {
  const ConfigNode* node = shrunk.config.find(key);
  return node == nullptr ? -1 : node->integer;
}

bool has_all(const Shrunk& shrunk) {
  return std::includes(shrunk.features.all.begin(), shrunk.features.all.end(), shrunk.original.all.begin(),
                       shrunk.original.all.end());
}

TEST(Shrink, DenseModel) {
  const Shrunk twin = shrunk(kDense);
  EXPECT_TRUE(has_all(twin));
  EXPECT_EQ(number(twin, "num_hidden_layers"), 2);
  EXPECT_EQ(number(twin, "vocab_size"), 272);
  EXPECT_LT(twin.features.weights, 100'000);
  EXPECT_EQ(number(twin, "hidden_size") % number(twin, "num_attention_heads"), 0);
  EXPECT_EQ(number(twin, "num_attention_heads") % number(twin, "num_key_value_heads"), 0);
  EXPECT_LT(number(twin, "num_key_value_heads"), number(twin, "num_attention_heads"));
  EXPECT_NE(number(twin, "intermediate_size"), number(twin, "hidden_size"));
  EXPECT_EQ(number(twin, "max_position_embeddings"), 8192) << "a fact is no size";
  EXPECT_EQ(twin.config.find("eos_token_id")->items.size(), 2u);
  EXPECT_EQ(twin.layers.at("model.layers.1"), "model.layers.1");
}

TEST(Shrink, FirstLayersDenseThenExpertsInGroups) {
  const Shrunk twin = shrunk(kSparse);
  EXPECT_TRUE(has_all(twin));
  EXPECT_EQ(twin.features.kinds.size(), 2u);
  EXPECT_EQ(number(twin, "num_hidden_layers"), 2);
  EXPECT_EQ(number(twin, "first_k_dense_replace"), 1);
  EXPECT_EQ(number(twin, "num_key_value_heads"), number(twin, "num_attention_heads")) << "they go together";
  EXPECT_EQ(number(twin, "n_routed_experts") % number(twin, "n_group"), 0);
  EXPECT_LT(number(twin, "topk_group"), number(twin, "n_group"));
  EXPECT_GE(number(twin, "num_experts_per_tok"), 2);
  EXPECT_LT(twin.features.weights, 150'000);
  EXPECT_EQ(twin.layers.at("model.layers.1"), "model.layers.3") << "the first with experts";
  EXPECT_EQ(twin.config.find("quantization_config"), nullptr);
  EXPECT_EQ(twin.notes.size(), 1u);
}

TEST(Shrink, SizesThatTheConfigLeavesOut) {
  const Shrunk twin = shrunk(kWindows);
  EXPECT_TRUE(has_all(twin));
  EXPECT_EQ(number(twin, "num_hidden_layers"), 6) << "five layers with a window to one without";
  EXPECT_EQ(number(twin, "sliding_window"), 16);
  EXPECT_GT(number(twin, "num_attention_heads"), 0) << "8 by default";
  EXPECT_EQ(number(twin, "head_dim"), 8);
}

TEST(Shrink, TheVocabularyIsWideEnough) { EXPECT_EQ(number(shrunk(kDense, 5000), "vocab_size"), 5000); }

// A family that nothing but its spec knows: words of its own for everything, layers by a list of numbers from 1.
TEST(Shrink, AFamilyThatIsNewHere) {
  const auto path =
      std::filesystem::temp_directory_path() / ("firstlight-shrink-" + std::to_string(::getpid()) + ".lua");
  ASSERT_TRUE(write_file(path.string(), R"(local std = require "std"
return architecture {
  matches = { model_type = { "newcomer" } },
  parameters = function(c)
    local p = { depth = c:count "depth", wide = c:count "wide", blocks = c:count "blocks", words = c:count "words", deep = {} }
    local listed = c:list "deep_ones"
    for i = 0, #listed - 1 do p.deep[listed[i] - 1] = true end
    if p.wide % p.blocks ~= 0 then error "blocks do not divide the width" end
    return p
  end,
  state = function(p) return {} end,
  forward = function(p, w, batch)
    local e = w("words", { p.words, p.wide })
    local x = gather_rows(e, batch.tokens)
    for i = 0, p.depth - 1 do
      local l = w:scope("stage." .. i)
      local mix = l("mix", { p.wide, p.wide })
      local y = reshape(x, "T", p.blocks, p.wide // p.blocks)
      if p.deep[i] then y = map(function(v) return v * sigmoid(v) end, y) end
      x = x + linear(reshape(y, "T", p.wide), mix)
    end
    return { logits = linear(gather_rows(x, batch.output_rows), w("head", { p.words, p.wide })) }
  end,
})")
                  .ok());
  const Shrunk twin = shrunk(
      R"({"model_type": "newcomer", "depth": 24, "wide": 3072, "blocks": 24, "words": 50000, "deep_ones": [3, 6, 9, 24]})",
      32, path.string());
  std::filesystem::remove(path);
  EXPECT_TRUE(has_all(twin));
  EXPECT_EQ(twin.features.kinds.size(), 2u);
  EXPECT_EQ(number(twin, "depth"), 3);
  EXPECT_EQ(twin.config.find("deep_ones")->items.size(), 2u) << "the loop over the list goes round";
  EXPECT_LT(number(twin, "wide"), 128);
}

TEST(Shrink, WhatDoesNotTraceIsRefused) {
  EXPECT_FALSE(shrink_config(*parse_config_tree(R"({"model_type": "nobody"})"), {}).ok());
}

}  // namespace
}  // namespace firstlight::intake
