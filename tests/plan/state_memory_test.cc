// SPDX-License-Identifier: Apache-2.0
// A recurrent state is float32 between steps whatever type the keys and values are kept in, and the memory estimate
// that admits requests counts it.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "kv/state_cache.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr std::string_view kGraph = R"(graph @hybrid {
  state kv.0 = append {owner = "layer", rewind = "truncate"} (k: f32[2 x 8], v: f32[2 x 8])
  state s.1 = fixed {owner = "layer", rewind = "snapshot"} (conv: f32[3 x 16], s: f32[32 x 8])
  state ids.0 = token_history {owner = "layer", rewind = "truncate", window = 2} (ids: i32[1 x 1])
  input %tokens : i32[T]
  weight @embed : f32[32, 16]
  weight @taps : f32[16, 4]
  %recent, %ids = recent_tokens %tokens, $ids.0 {count = 2} : i32[T, 2], state
  %x = gather_rows @embed, %tokens : f32[T, 16]
  %c, %s1 = conv1d %x, @taps, $s.1 {component = "conv", dilation = 1} : f32[T, 16], state
  %q = reshape %c {shape = "T,2,8"} : f32[T, 2, 8]
  %kv = append $kv.0, %q, %q : state
  %a = attend %q, %kv {key = "k", scale = 0.5, value = "v"} : f32[T, 2, 8]
  %k = reshape %c {shape = "T,1,16"} : f32[T, 1, 16]
  %g = slice %c {axis = 1, start = 0, stop = 2} : f32[T, 2]
  %y, %s2 = recur_gla %k, %k, %a, %g, %s1 {component = "s"} : f32[T, 2, 8], state
  %y2 = reshape %y {shape = "T,16"} : f32[T, 16]
  %r = cast %recent {to = "f32"} : f32[T, 2]
  output y = %y2
  output r = %r
}
)";

TEST(StateMemory, RecurrentStatesStayFloat32AndAreCounted) {
  auto graph = ir::parse(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto options = options_for(catalog::Backend::kCpu);
  options.state_dtype = tensor::DType::kF16;
  const auto plan = compiler::compile(*std::move(graph), options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->states.size(), 3u);
  EXPECT_EQ(plan->states[0].components[0].dtype, tensor::DType::kF16);
  EXPECT_EQ(plan->states[1].components[0].dtype, tensor::DType::kF32);
  EXPECT_EQ(plan->states[1].components[1].dtype, tensor::DType::kF32);
  EXPECT_EQ(plan->states[2].components[0].dtype, tensor::DType::kI32);
  const auto cache = kv::StateCache::create(plan->states, {.page_rows = 16});
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  constexpr int64_t kPage = 2 * (2 * 16 * 8 * 2) + 16 * 4;  // keys and values in halves, 16 ids
  constexpr int64_t kFixed = (3 * 16 + 32 * 8) * 4;
  EXPECT_EQ(cache->bytes_for_length(1), kPage + kFixed);
  EXPECT_EQ(cache->bytes_for_length(100), 7 * kPage + kFixed);
}

}  // namespace
}  // namespace firstlight::plans
