// SPDX-License-Identifier: Apache-2.0
#include "align/segments.h"

#include <gtest/gtest.h>

#include "align/test/tiny_graph.h"

namespace firstlight::align {
namespace {

TEST(Segments, EachLayerHasItsOwnWeightsAndStates) {
  const ir::Graph graph = tiny_graph();
  const auto taps = find_taps(graph, false);
  const auto cut = cut_into_segments(graph, taps);
  ASSERT_TRUE(cut.ok()) << cut.status().to_string();
  ASSERT_EQ(cut->segments.size(), 4u);
  EXPECT_EQ(cut->segments[1].graph.weight_sources.size(), 1u);
  EXPECT_EQ(cut->segments[1].graph.states.size(), 1u);
  EXPECT_TRUE(cut->segments[2].graph.states.empty());
  EXPECT_TRUE(cut->segments[3].graph.weight_sources.contains("model.embed_tokens.weight")) << "the tied head's";
  ASSERT_EQ(cut->crossings.size(), 3u);
  EXPECT_EQ(cut->segments[2].reads, (std::vector<size_t>{1}));
  EXPECT_EQ(cut->segments[2].writes, (std::vector<size_t>{2}));
  EXPECT_EQ(cut->crossings[0].last_reader, 1u) << "the embedding is read by the first layer alone";
}

TEST(Segments, LayersThatShareAStateStayTogether) {
  const ir::Graph graph = tiny_graph(true);
  const auto cut = cut_into_segments(graph, find_taps(graph, true));
  ASSERT_TRUE(cut.ok()) << cut.status().to_string();
  ASSERT_EQ(cut->segments.size(), 3u);
  EXPECT_EQ(cut->segments[1].layer, "model.layers.0");
  EXPECT_EQ(cut->segments[1].graph.states.size(), 1u);
}

}  // namespace
}  // namespace firstlight::align
