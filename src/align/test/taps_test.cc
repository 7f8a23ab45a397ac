// SPDX-License-Identifier: Apache-2.0
#include "align/taps.h"

#include <gtest/gtest.h>

#include "align/test/tiny_graph.h"

namespace firstlight::align {
namespace {

std::vector<std::string> names(const std::vector<Tap>& taps) {
  std::vector<std::string> out;
  for (const Tap& tap : taps) out.push_back(tap.name);
  return out;
}

TEST(Taps, LayersAreNamedByTheirScopes) {
  const auto taps = find_taps(tiny_graph(), false);
  EXPECT_EQ(names(taps), (std::vector<std::string>{"embedding", "model.layers.0", "model.layers.1", "logits"}));
  EXPECT_EQ(taps[1].op, "map");
  EXPECT_TRUE(taps[1].is_layer_output && taps[1].is_module_output);
  EXPECT_FALSE(taps[0].is_module_output) << "a vendor's embedding may scale its rows";
  EXPECT_EQ(taps[3].layer, "head");
  EXPECT_EQ(taps[3].width(), 8);
  EXPECT_EQ(taps[3].rate(), 1);
}

TEST(Taps, OperatorsAreNamedByTheModulesWhoseWeightsTheyUse) {
  const auto taps = find_taps(tiny_graph(), true);
  EXPECT_EQ(names(taps),
            (std::vector<std::string>{"embedding", "model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.attend",
                                      "model.layers.0", "model.layers.1.mlp.map", "model.layers.1.mlp.down_proj",
                                      "model.layers.1", "logits"}));
  EXPECT_TRUE(taps[1].is_module_output);
  EXPECT_FALSE(taps[2].is_module_output);
  EXPECT_EQ(taps[2].width(), 4) << "of all heads";
}

TEST(Taps, OutputsAreTheTapsAlone) {
  const ir::Graph graph = tiny_graph();
  auto taps = find_taps(graph, false);
  taps.resize(2);
  const ir::Graph cut = with_outputs(graph, taps);
  EXPECT_EQ(cut.output_names, (std::vector<std::string>{"embedding", "model.layers.0"}));
  EXPECT_EQ(cut.weight_sources.size(), 2u) << "what comes behind them is gone";
}

}  // namespace
}  // namespace firstlight::align
