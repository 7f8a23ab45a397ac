// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "catalog/kernel_row.h"
#include "ops/infer.h"

namespace firstlight::catalog {
namespace {

TEST(Catalog, EveryOperatorHasAReferenceAndACpuKernel) {
  std::set<std::pair<ops::OpKind, Backend>> found;
  for (const KernelRow& row : all_kernels()) found.insert({row.op, row.backend});
  for (const ops::OpDef& def : ops::all_ops()) {
    if (def.num_regions > 0) continue;  // the executor runs control flow
    const bool cpu_only = def.kind == ops::OpKind::kPackWeight;
    EXPECT_TRUE(cpu_only || found.count({def.kind, Backend::kReference}) == 1) << def.name;
  }
}

TEST(Catalog, SymbolsFollowTheGrammar) {
  std::set<std::pair<std::string_view, Backend>> seen;
  for (const KernelRow& row : all_kernels()) {
    EXPECT_TRUE(seen.insert({row.symbol, row.backend}).second) << row.symbol << " is listed twice";
    EXPECT_TRUE(row.symbol.starts_with(ops::op_name(row.op))) << row.symbol;
    EXPECT_NE(row.accepts, nullptr) << row.symbol;
    EXPECT_TRUE(row.backend != Backend::kReference || row.symbol.ends_with("_ref")) << row.symbol;
  }
}

TEST(Catalog, SelectTakesTheHighestRankThatAccepts) {
  const std::vector<tensor::Type> operands = {ops::f32({4, 8})};
  ops::Attributes attributes;
  attributes.set("eps", 1e-5);
  attributes.set("offset", 0.0);
  const Signature signature{ops::OpKind::kRmsNorm, operands, operands, attributes};
  const KernelRow* reference = select_kernel(Backend::kReference, {}, signature);
  ASSERT_NE(reference, nullptr);
  EXPECT_EQ(reference->backend, Backend::kReference);
  const KernelRow* cpu = select_kernel(Backend::kCpu, {target::kAvx2}, signature);
  ASSERT_NE(cpu, nullptr);
  EXPECT_TRUE(target::Features{target::kAvx2}.has(cpu->needs));
  for (const KernelRow& row : all_kernels()) {
    const bool fits = row.op == signature.op && row.backend == Backend::kCpu &&
                      target::Features{target::kAvx2}.has(row.needs) && row.accepts(signature);
    EXPECT_TRUE(!fits || row.rank <= cpu->rank) << row.symbol;
  }
}

TEST(Catalog, NamesReadBack) {
  EXPECT_EQ(backend_from_name("cpu"), Backend::kCpu);
  EXPECT_EQ(backend_from_name("reference"), Backend::kReference);
  EXPECT_FALSE(backend_from_name("tpu").has_value());
  EXPECT_EQ(compute_mode_name(ComputeMode::kInt8), "w8a8");
}

}  // namespace
}  // namespace firstlight::catalog
