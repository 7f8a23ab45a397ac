// SPDX-License-Identifier: Apache-2.0
#include "intake/features.h"

#include <gtest/gtest.h>

#include "intake/test/spec_fixture.h"

namespace firstlight::intake {
namespace {

Features features(const std::string& config) {
  const auto store = SpecStore::open("");
  const TensorTable tensors = TensorTable::open_ended();
  const Quantisation quantisation;
  const auto tree = parse_config_tree(config);
  const auto trace = run_trace({.specs = &*store,
                                .tensors = &tensors,
                                .quantisation = &quantisation,
                                .read_floats = {},
                                .limits = {},
                                .record_visits = true,
                                .probing = true},
                               *tree);
  EXPECT_TRUE(trace.ok()) << trace.status().to_string();
  return trace.ok() ? features_of(*trace) : Features{};
}

std::string qwen(int hidden, int layers, int vocabulary, const std::string& more = "") {
  return R"({"model_type": "qwen3", "hidden_size": )" + std::to_string(hidden) +
         R"(, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "rms_norm_eps": 1e-6,
             "hidden_act": "silu", "max_position_embeddings": 64, "rope_theta": 10000.0, "vocab_size": )" +
         std::to_string(vocabulary) + R"(, "num_hidden_layers": )" + std::to_string(layers) + more + "}";
}

TEST(Features, NamesWithoutNumbers) {
  EXPECT_EQ(without_numbers("model.layers.31.mlp.experts.7.up_proj.weight"),
            "model.layers.#.mlp.experts.#.up_proj.weight");
  EXPECT_EQ(without_numbers("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(without_numbers("h2.w"), "h2.w");
  EXPECT_EQ(layer_of("model.layers.31.mlp.experts.7.w"), "model.layers.31");
  EXPECT_EQ(layer_of("model.norm.weight"), "");
}

TEST(Features, SizesAreNoneButTheirDifferencesAre) {
  const Features large = features(qwen(4000, 9, 3000)), small = features(qwen(40, 2, 300));
  EXPECT_EQ(large.all, small.all);
  EXPECT_GT(large.cost, 100 * small.cost);
  EXPECT_EQ(small.num_layers, 2);
  EXPECT_EQ(small.logits_width, 300);
  ASSERT_EQ(small.kinds.size(), 1u);
  EXPECT_EQ(small.kinds[0].scopes, (std::vector<std::string>{"model.layers.0", "model.layers.1"}));
  EXPECT_NE(features(qwen(48, 2, 300)).all, small.all) << "hidden and intermediate size became one";
  EXPECT_NE(features(qwen(40, 1, 300)).all, small.all) << "one layer alone";
}

TEST(Features, KindsOfLayersAndStatesCount) {
  const Features plain = features(qwen(40, 4, 300));
  const Features windowed =
      features(qwen(40, 4, 300, R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2)"));
  EXPECT_EQ(plain.kinds.size(), 1u);
  EXPECT_EQ(windowed.kinds.size(), 2u);
  const auto mentions = [](const Features& features, std::string_view text) {
    return std::any_of(features.all.begin(), features.all.end(),
                       [&](const std::string& one) { return one.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(mentions(windowed, " truncate window"));
  EXPECT_FALSE(mentions(plain, " truncate window"));
  EXPECT_TRUE(mentions(windowed, "varies model.layers.#.self_attn attend window"));
}

TEST(Features, ThePathOfTheSpecCounts) {
  const auto jumps = [](const Features& features) {
    std::set<std::string> out;
    for (const std::string& one : features.all) {
      if (one.starts_with("jump ")) out.insert(one);
    }
    return out;
  };
  const auto plain = jumps(features(qwen(40, 2, 300)));
  const auto scaled = jumps(features(qwen(40, 2, 300, R"(, "rope_scaling": {"type": "linear", "factor": 2.0})")));
  EXPECT_GT(plain.size(), 50u);
  EXPECT_NE(plain, scaled);
}

}  // namespace
}  // namespace firstlight::intake
