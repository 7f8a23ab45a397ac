// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_signature.h"

#include <gtest/gtest.h>

namespace firstlight::device {
namespace {

TEST(KernelSignature, ReadsNamesKindsAndPlaces) {
  const std::string text =
      "// FL_KERNEL(not_this)(int x) {\n"
      "#define MAKE(n) FL_KERNEL(n)(int x) \\\n  { FL_KERNEL(neither) }\n"
      "FL_FUNCTION float twice(float x) { return 2 * x; }\n"
      "FL_KERNEL(scale)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y,\n"
      "                 const float factor, int n, uint m, fl_i64 a, fl_u64 b) {\n}\n"
      "FL_KERNEL(sum)(FL_GLOBAL(float) x, FL_DYNAMIC_LOCAL_PARAM) { }\n"
      "FL_KERNEL(nothing)() {}\n";
  const auto kernels = parse_signatures(text);
  ASSERT_TRUE(kernels.ok()) << kernels.status().to_string();
  ASSERT_EQ(kernels->size(), 3u);
  const KernelSignature& scale = (*kernels)[0];
  EXPECT_EQ(scale.name, "scale");
  const ParameterKind wanted[] = {ParameterKind::kBuffer, ParameterKind::kBuffer, ParameterKind::kF32,
                                  ParameterKind::kI32,    ParameterKind::kU32,    ParameterKind::kI64,
                                  ParameterKind::kU64};
  ASSERT_EQ(scale.parameters.size(), std::size(wanted));
  for (size_t i = 0; i < std::size(wanted); ++i) EXPECT_EQ(scale.parameters[i].kind, wanted[i]) << i;
  EXPECT_EQ(scale.parameters[2].name, "factor");
  EXPECT_EQ(text[scale.parameters_end], ')');
  EXPECT_EQ(text[scale.body_begin - 1], '{');
  EXPECT_FALSE(scale.has_dynamic_local);
  EXPECT_FALSE(scale.uses_warps);
  EXPECT_TRUE((*kernels)[1].has_dynamic_local);
  EXPECT_EQ((*kernels)[1].parameters.size(), 1u);
  EXPECT_TRUE((*kernels)[2].parameters.empty());
}

TEST(KernelSignature, WarpOperationsAreSeen) {
  const auto kernels = parse_signatures(
      "FL_KERNEL(k)(FL_GLOBAL(float) x) { if (x) { } FL_WARP_STATE; x[0] = fl_warp_sum(x[1]); }\n"
      "FL_KERNEL(plain)(FL_GLOBAL(float) x) { x[0] = 1; }");
  ASSERT_TRUE(kernels.ok());
  EXPECT_TRUE((*kernels)[0].uses_warps);
  EXPECT_FALSE((*kernels)[1].uses_warps);
}

TEST(KernelSignature, WhatDoesNotFitIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\nFL_KERNEL(k)(double x) {}", "line 2: kernel 'k': parameter 'double x'"},
      {"FL_KERNEL(k)(FL_GLOBAL float* x) {}", "parameter 'FL_GLOBAL float* x'"},
      {"FL_KERNEL(k)(int) {}", "parameter 'int'"},
      {"FL_KERNEL(k)(FL_DYNAMIC_LOCAL_PARAM, int x) {}", "must be the last"},
      {"FL_KERNEL(k)(int x);", "wanted FL_KERNEL(name)"},
      {"FL_KERNEL(k", "wanted FL_KERNEL(name)"},
      {"FL_KERNEL(a b)(int x) {}", "kernel name 'a b'"},
      {"FL_KERNEL(k)() {}\nFL_KERNEL(k)() {}", "line 2: kernel 'k' is there twice"},
  };
  for (const auto& [text, message] : cases) {
    const auto kernels = parse_signatures(text);
    ASSERT_EQ(kernels.code(), StatusCode::kInvalidData) << text;
    EXPECT_NE(kernels.status().message().find(message), std::string::npos) << kernels.status().message();
  }
}

}  // namespace
}  // namespace firstlight::device
