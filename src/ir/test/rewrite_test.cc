// SPDX-License-Identifier: Apache-2.0
#include "ir/rewrite.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace firstlight::ir {
namespace {

TEST(DeadCode, DropsNodesWeightsAndStatesNobodyNeeds) {
  Graph graph = parse(R"(graph @g {
  state a = append {owner = "layer", rewind = "truncate"} (k: f32[1 x 8])
  state b = append {owner = "layer", rewind = "truncate"} (k: f32[1 x 8], v: f32[1 x 8])
  input %x : f32[T, 8]
  weight @dead : f32[8, 8]
  weight @live : f32[8, 8]
  %0 = linear %x, @dead {compute = "auto"} : f32[T, 8]
  %1 = append $a, %0 : state
  %2 = linear %x, @live {compute = "auto"} : f32[T, 8]
  %3 = append $b, %2, %2 : state
  %4 = reshape %2 {shape = "T,1,8"} : f32[T, 1, 8]
  %5 = attend %4, %3 {key = "k", scale = 1.0, value = "v"} : f32[T, 1, 8]
  output y = %5
})")
                    .value();
  eliminate_dead_code(graph);
  ASSERT_TRUE(verify(graph).ok()) << verify(graph).message();
  const std::string text = print(graph);
  EXPECT_EQ(text.find("dead"), std::string::npos);
  EXPECT_EQ(text.find("$a"), std::string::npos);
  EXPECT_EQ(graph.states.size(), 1u);
  EXPECT_EQ(graph.nodes.size(), 4u);
  EXPECT_FALSE(graph.weight_sources.contains("dead"));
}

TEST(Builder, RefusesWhatTheRowRefuses) {
  Graph graph;
  Builder builder(graph);
  const ValueId x =
      builder.add_input("x", tensor::Type::tensor(tensor::DType::kF32, {{1, tensor::Symbol::kTokens}, 8}));
  const ValueId w = builder.add_weight("w", tensor::Type::tensor(tensor::DType::kF32, {4, 9}), "w");
  EXPECT_EQ(builder.add_weight("w", {}, "w"), w);
  builder.set_scope("model.layers.7");
  const ValueId operands[] = {x, w};
  const auto product = builder.add(ops::OpKind::kLinear, operands, {});
  ASSERT_EQ(product.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(product.status().message().find("linear in model.layers.7"), std::string::npos)
      << product.status().message();
}

TEST(Rewrite, CountsAndReplacesUses) {
  Graph graph = parse(R"(graph @g {
  input %x : f32[T, 8]
  %0 = map %x {expr = neg(x0)} : f32[T, 8]
  %1 = map %0, %0 {expr = mul(x0, x1)} : f32[T, 8]
  output y = %1
})")
                    .value();
  const ValueId negated = graph.node(0).results[0];
  EXPECT_EQ(count_uses(graph)[static_cast<size_t>(negated)], 2);
  replace_uses(graph, negated, graph.body.parameters[0]);
  EXPECT_EQ(count_uses(graph)[static_cast<size_t>(negated)], 0);
  eliminate_dead_code(graph);
  EXPECT_EQ(graph.nodes.size(), 1u);
}

}  // namespace
}  // namespace firstlight::ir
