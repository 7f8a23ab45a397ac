// SPDX-License-Identifier: Apache-2.0
#include "ir/dot.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace firstlight::ir {
namespace {

TEST(Dot, NodesEdgesScopesAndOutputs) {
  const Graph graph = parse(R"(graph @g {
  input %x : f32[T, 8]
  weight @w : f32[8, 8]
  %0 = linear %x, @w {compute = "auto"} : f32[T, 8]  # model.layers.0
  %1 = map %0 {expr = tanh(x0)} : f32[T, 8]
  output y = %1
})")
                          .value();
  const std::string dot = print_dot(graph);
  EXPECT_TRUE(dot.starts_with("digraph \"g\" {")) << dot;
  EXPECT_TRUE(dot.ends_with("}\n"));
  EXPECT_NE(dot.find("linear\\n@w"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n0 -> n1 [label=\"f32[T, 8]\"]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("label=\"model.layers.0\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n1 -> out0"), std::string::npos) << dot;
}

TEST(Dot, RegionsHangOnTheirNode) {
  const Graph graph = parse(R"(graph @g {
  input %x : f32[T, 8]
  %0 = repeat %x {count = 2} : f32[T, 8] {
    (%1: f32[T, 8])
    %2 = map %1 {expr = tanh(x0)} : f32[T, 8]
    yield %2
  }
  output y = %0
})")
                          .value();
  const std::string dot = print_dot(graph);
  EXPECT_NE(dot.find("style=dotted"), std::string::npos) << dot;
  EXPECT_NE(dot.find("label=\"map\""), std::string::npos) << dot;
}

}  // namespace
}  // namespace firstlight::ir
