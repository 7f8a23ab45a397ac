// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <gtest/gtest.h>

#include "ir/verify.h"

namespace firstlight::ir {
namespace {

constexpr char kLayer[] = R"(graph @tiny {eos_token_ids = [2], max_positions = 64} {
  state kv.0 = append {owner = "layer", rewind = "truncate"} (k: f32[2 x 4], v: f32[2 x 4])
  input %tokens : i32[T]
  input %positions : i32[T]
  weight @embed : q8_0[16, 32] from "token embd"
  weight @q : bf16[8, 32]
  weight @norm : f32[32]
  %0 = gather_rows @embed, %tokens : f32[T, 32]
  %1 = rms_norm %0, @norm {eps = 1e-05, offset = 0.0} : f32[T, 32]  # model.layers.0
  %2 = linear %1, @q {compute = "auto"} : f32[T, 8]  # model.layers.0.self_attn
  %3 = reshape %2 {shape = "T,2,4"} : f32[T, 2, 4]
  %4 = append $kv.0, %3, %3 : state
  %5 = map %3 {expr = mul(x0, sigmoid(x0))} : f32[T, 2, 4]
  %6, %7 = top_k %5 {k = 2} : f32[T, 2, 2], i32[T, 2, 2]
  output logits = %6
}
)";

TEST(Text, PrintsWhatItParsed) {
  const auto graph = parse(kLayer);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(print(*graph), kLayer);
  EXPECT_EQ(graph->node(2).scope, "model.layers.0.self_attn");
  EXPECT_EQ(graph->weight_sources.at("embed").tensor, "token embd");
}

TEST(Text, RegionsTravelToo) {
  const std::string text = R"(graph @moe {
  input %x : f32[T, 8]
  input %idx : i32[T, 2]
  input %w : f32[T, 2]
  weight @up : f32[4, 16, 8]
  %0 = per_expert %x, %idx, %w, @up {num_experts = 4, weight_on = "output"} : f32[T, 16] {
    (%1: f32[N, 8], %2: f32[16, 8])
    %3 = linear %1, %2 {compute = "auto"} : f32[N, 16]
    yield %3
  }
  output y = %0
}
)";
  const auto graph = parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ(graph->node(1).regions.size(), 1u);
  const auto again = parse(print(*graph));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(print(*again), print(*graph));
}

TEST(Text, ErrorsNameThePlace) {
  const auto message = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    const auto graph = parse(text);
    EXPECT_EQ(graph.code(), StatusCode::kInvalidData);
    return graph.ok() ? "" : graph.status().message();
  };
  EXPECT_NE(message(kLayer, "rms_norm %0", "rms_norm %9").find("line 9, column 17: no value is called %9"),
            std::string::npos);
  EXPECT_NE(message(kLayer, "= rms_norm", "= rms_nrom").find("no such operator"), std::string::npos);
  EXPECT_NE(message(kLayer, "linear %1, @q {compute = \"auto\"} : f32[T, 8]",
                    "linear %1, @q {compute = \"auto\"} : f32[T, 9]")
                .find("%2 is f32[T, 8], f32[T, 9] written"),
            std::string::npos);
  EXPECT_NE(message(kLayer, "eps = 1e-05", "epsilon = 1e-05").find("epsilon"), std::string::npos);
  EXPECT_NE(message(kLayer, "%7 = top_k", "%0 = top_k").find("%0 is made twice"), std::string::npos);
}

TEST(Text, NoPrefixOfATextCrashesOrPasses) {
  const std::string text = kLayer;
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse(text.substr(0, length)).ok()) << length;
  }
}

TEST(Text, FingerprintSeesWhatIsComputedAndNotWhere) {
  const auto graph = parse(kLayer).value();
  auto moved = graph;
  moved.node(2).scope = "elsewhere";
  EXPECT_EQ(fingerprint(graph), fingerprint(moved));
  moved.node(1).attributes.set("eps", 1e-6);
  EXPECT_NE(fingerprint(graph), fingerprint(moved));
}

}  // namespace
}  // namespace firstlight::ir
