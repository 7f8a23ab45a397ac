// SPDX-License-Identifier: Apache-2.0
#include "compiler/traffic.h"

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "ir/text.h"

namespace firstlight::compiler {
namespace {

TEST(Traffic, CountsLaunchesAndBytesOfEachLayer) {
  const auto graph = ir::parse(R"(graph @g {
  input %tokens : i32[T]
  weight @e : f32[100, 8]
  weight @w : f32[8, 8]
  %0 = gather_rows @e, %tokens : f32[T, 8]
  %1 = linear %0, @w {compute = "auto"} : f32[T, 8]  # model.layers.0.mlp
  %2 = map %1 {expr = exp(x0)} : f32[T, 8]  # model.layers.12
  output y = %2
})");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  CompileOptions options{.backend = catalog::Backend::kReference};
  const auto plan = compile(*graph, options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto found = traffic_by_layer(*plan, {.tokens = 3, .outputs = 1, .sequences = 1});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at(0).launches, 1);
  EXPECT_EQ(found.at(0).activation_bytes, 2 * 3 * 8 * 4);
  EXPECT_EQ(found.at(0).weight_bytes, 8 * 8 * 4);
  EXPECT_EQ(found.at(12).weight_bytes, 0);
  EXPECT_EQ(found.at(-1).launches, 2);                                    // rows of the table, rows of the output
  EXPECT_EQ(found.at(-1).weight_bytes, 3 * 8 * 4);                        // not the whole table
  EXPECT_EQ(found.at(-1).activation_bytes, 3 * 4 + 3 * 32 + 2 * 32 + 4);  // ids, rows; then twice the one row, its id
}

}  // namespace
}  // namespace firstlight::compiler
