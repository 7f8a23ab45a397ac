// SPDX-License-Identifier: Apache-2.0
#include "align/rounding.h"

#include <gtest/gtest.h>

#include "align/taps.h"
#include "align/test/tiny_graph.h"

namespace firstlight::align {
namespace {

int count(const ir::Graph& graph, ops::OpKind op) {
  int found = 0;
  for (const ir::NodeId id : graph.body.nodes) found += graph.node(id).op == op ? 1 : 0;
  return found;
}

TEST(Rounding, OperandsOfProductsAreRoundedAsTheyAreComputed) {
  const ir::Graph graph = tiny_graph();
  compiler::CompileOptions options{.backend = catalog::Backend::kCpu};
  options.compute = catalog::ComputeMode::kBf16;
  const auto rounded = with_rounded_products(graph, options);
  ASSERT_TRUE(rounded.ok()) << rounded.status().to_string();
  EXPECT_EQ(count(*rounded, ops::OpKind::kCast), 3 * 4) << "three products, two operands, there and back";
  const auto taps = find_taps(graph, true);
  for (const Tap& tap : taps) EXPECT_EQ(rounded->value(tap.value).type, tap.type) << "values keep their ids";
  options.compute = catalog::ComputeMode::kF32;
  EXPECT_EQ(count(with_rounded_products(graph, options).value(), ops::OpKind::kCast), 0);
}

}  // namespace
}  // namespace firstlight::align
