// SPDX-License-Identifier: Apache-2.0
#include "compiler/compute_modes.h"

#include <gtest/gtest.h>

namespace firstlight::compiler {
namespace {

using catalog::ComputeMode;
using tensor::DType;

TEST(ComputeModes, TheStoredTypeDecidesWhenNobodyAsks) {
  const CompileOptions options{.backend = catalog::Backend::kCpu};
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kQ4_K), ComputeMode::kInt8);
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kMXFP4), ComputeMode::kInt8);
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kBF16), ComputeMode::kBf16);
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kF8E4M3), ComputeMode::kBf16);
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kF16), ComputeMode::kF32);  // bfloat16 would lose three bits of it
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kF32), ComputeMode::kF32);
}

TEST(ComputeModes, OptionsDecideExceptIntegersForFloats) {
  CompileOptions options{.backend = catalog::Backend::kCpu, .compute = ComputeMode::kInt8};
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kQ8_0), ComputeMode::kInt8);
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kBF16), ComputeMode::kBf16);
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kF32), ComputeMode::kF32);
  options.compute = ComputeMode::kBf16;
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kF32), ComputeMode::kBf16);
  options.compute = ComputeMode::kF32;
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kQ8_0), ComputeMode::kF32);
}

TEST(ComputeModes, ANodeMayRaiseButNotLower) {
  CompileOptions options{.backend = catalog::Backend::kCpu};
  EXPECT_EQ(compute_mode_for(options, "f32", DType::kQ8_0), ComputeMode::kF32);
  EXPECT_EQ(compute_mode_for(options, "bf16", DType::kQ8_0), ComputeMode::kBf16);
  EXPECT_EQ(compute_mode_for(options, "bf16", DType::kF32), ComputeMode::kF32);
  options.compute = ComputeMode::kF32;
  EXPECT_EQ(compute_mode_for(options, "bf16", DType::kQ8_0), ComputeMode::kF32);
}

TEST(ComputeModes, TheReferenceComputesInFloat32) {
  const CompileOptions options{.backend = catalog::Backend::kReference, .compute = ComputeMode::kInt8};
  EXPECT_EQ(compute_mode_for(options, "auto", DType::kQ4_0), ComputeMode::kF32);
}

}  // namespace
}  // namespace firstlight::compiler
