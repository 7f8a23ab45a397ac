// SPDX-License-Identifier: Apache-2.0
#include "adapt/hidden_output.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "ir/verify.h"

namespace firstlight::adapt {
namespace {

constexpr const char* kBegin = R"(graph @model {
  input %tokens : i32[T]
  input %output_rows : i32[O]
  weight @embed : f32[48, 16]
  weight @norm : f32[16]
  weight @head : f32[48, 16]
  %x = gather_rows @embed, %tokens : f32[T, 16]
  %rows = gather_rows %x, %output_rows : f32[O, 16]
  %h = rms_norm %rows, @norm {eps = 1e-05} : f32[O, 16]
)";

ir::Graph graph_of(const std::string& end) {
  auto graph = ir::parse(kBegin + end + "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(*graph) : ir::Graph{};
}

constexpr const char* kCapped = R"(  %y = linear %h, @head {compute = "auto"} : f32[O, 48]
  %z = map %y {expr = mul(30.0, tanh(div(x0, 30.0)))} : f32[O, 48]
  output logits = %z
)";

TEST(HiddenOutput, IsWhatEntersTheHeadForEveryToken) {
  ir::Graph graph = graph_of(kCapped);
  ASSERT_TRUE(add_hidden_output(graph, true).ok());
  EXPECT_TRUE(ir::verify(graph).ok());
  EXPECT_EQ(graph.output_names, (std::vector<std::string>{"logits", "hidden"}));
  const ir::Value& hidden = graph.value(graph.body.yields[1]);
  EXPECT_EQ(hidden.type.to_string(), "f32[T, 16]");
  EXPECT_EQ(graph.node(hidden.producer).op, ops::OpKind::kRmsNorm) << "the cap stands behind the head";
  EXPECT_EQ(graph.value(graph.body.yields[0]).type.to_string(), "f32[O, 48]");
}

TEST(HiddenOutput, AloneNeedsNoHead) {
  ir::Graph graph = graph_of(kCapped);
  ASSERT_TRUE(add_hidden_output(graph, false).ok());
  EXPECT_TRUE(ir::verify(graph).ok());
  EXPECT_EQ(graph.output_names, (std::vector<std::string>{"hidden"}));
  EXPECT_FALSE(graph.weight_sources.contains("head"));
  EXPECT_TRUE(std::none_of(graph.values.begin(), graph.values.end(), [](const auto& v) { return v.name == "head"; }));
  EXPECT_EQ(std::get<int64_t>(*graph.metadata.find("vocabulary")), 48);
}

TEST(HiddenOutput, WhereNoHeadIsFoundTheOperatorIsNamed) {
  ir::Graph graph = graph_of("  %z = softmax %h : f32[O, 16]\n  output logits = %z\n");
  const Status status = add_hidden_output(graph, true);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("softmax"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace firstlight::adapt
