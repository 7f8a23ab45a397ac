// SPDX-License-Identifier: Apache-2.0
// One graph, two targets: what a CPU fuses into its matrix products a GPU fuses into its norms.
#include "compiler/fusion_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/compile.h"
#include "ir/text.h"

namespace firstlight::compiler {
namespace {

constexpr const char* kBlock = R"(graph @g {
  input %x : f32[T, 32]
  input %h : f32[T, 48]
  weight @o : bf16[32, 48]
  weight @n : f32[32]
  weight @a : bf16[16, 32]
  weight @b : bf16[8, 32]
  %0 = linear %h, @o {compute = "auto"} : f32[T, 32]
  %1 = map %x, %0 {expr = add(x0, x1)} : f32[T, 32]
  %2 = rms_norm %1, @n {eps = 1e-05, offset = 0.0} : f32[T, 32]
  %3 = linear %2, @a {compute = "auto"} : f32[T, 16]
  %4 = linear %2, @b {compute = "auto"} : f32[T, 8]
  output p = %3
  output q = %4
  output r = %1
})";

// The operators that are left, in order, without what selects rows and packs weights.
std::vector<std::string> fused_for(const target::Execution& execution) {
  ir::Graph graph = ir::parse(kBlock).value();
  CompileOptions options{.backend = catalog::Backend::kCpu, .features = {target::kAvx2}};
  options.execution = execution;
  options.disabled_passes = {"narrow_to_outputs", "pack_weights"};
  EXPECT_TRUE(run_passes(graph, options, "", nullptr).ok());
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.body.nodes) {
    const ir::Node& node = graph.node(id);
    if (node.op == ops::OpKind::kGatherRows) continue;
    std::string name(ops::op_name(node.op));
    if (node.op == ops::OpKind::kFusedLinear) name += " norm " + node.attributes.get_string("norm");
    names.push_back(std::move(name));
  }
  return names;
}

TEST(FusionRules, ACpuNormalisesInsideItsProducts) {
  EXPECT_EQ(fused_for({}), (std::vector<std::string>{"fused_linear norm none", "fused_linear norm rms"}));
}

TEST(FusionRules, AGpuNormalisesOnceWithTheResidualSum) {
  target::DeviceTarget device;
  device.kind = target::DeviceKind::kCuda;
  device.compute_units = 132;
  EXPECT_EQ(fused_for(target::execution_of(device)),
            (std::vector<std::string>{"fused_linear norm none", "fused_rows", "fused_linear norm none"}));
}

TEST(FusionRules, FewUnitsCountAsACpu) {
  EXPECT_EQ(fusion_rules({.wide_units = 2}).max_norm_users, fusion_rules({}).max_norm_users);
}

}  // namespace
}  // namespace firstlight::compiler
