// SPDX-License-Identifier: Apache-2.0
// One broken graph per rule.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"

namespace firstlight::ir {
namespace {

Graph legal() {
  return parse(R"(graph @g {
  state kv = append {owner = "layer", rewind = "truncate"} (k: f32[1 x 8])
  input %x : f32[T, 8]
  weight @w : f32[8, 8]
  %0 = linear %x, @w {compute = "auto"} : f32[T, 8]
  %1 = append $kv, %0 : state
  %2 = map %0, %x {expr = add(x0, x1)} : f32[T, 8]
  output y = %2
})")
      .value();
}

std::string broken_rule(const Graph& graph) {
  const Status status = verify(graph);
  return status.ok() ? "none" : status.message().substr(0, status.message().find("':") + 1);
}

TEST(Verify, AcceptsALegalGraph) { EXPECT_TRUE(verify(legal()).ok()); }

TEST(Verify, EachRuleIsHeld) {
  Graph graph = legal();
  graph.node(2).operands[0] = 99;
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'ids'");

  graph = legal();
  std::swap(graph.body.nodes[0], graph.body.nodes[2]);
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'order'");

  graph = legal();
  graph.body.nodes.push_back(0);
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'single'");
  graph = legal();
  graph.body.nodes.pop_back();
  EXPECT_NE(broken_rule(graph), "none");

  graph = legal();
  graph.node(0).attributes.set("colour", std::string("red"));
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'row'");

  graph = legal();
  graph.value(graph.node(0).results[0]).type.shape[1] = 9;
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'types'");

  graph = legal();
  graph.states[0].name = "other";
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'states'");

  graph = legal();
  graph.weight_sources.clear();
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'weights'");

  graph = legal();
  graph.output_names.emplace_back("z");
  EXPECT_EQ(broken_rule(graph), "graph breaks rule 'outputs'");
}

}  // namespace
}  // namespace firstlight::ir
