// SPDX-License-Identifier: Apache-2.0
#include "device/assemble.h"

#include <gtest/gtest.h>

namespace firstlight::device {
namespace {

constexpr const char* kText =
    "FL_KERNEL(a)(FL_GLOBAL(const float) x,\n  int n) {\n  x[0];\n}\nFL_KERNEL(b)(FL_GLOBAL(int) y, "
    "FL_DYNAMIC_LOCAL_PARAM) { }\n";

target::DeviceTarget target_of(target::DeviceKind kind) {
  target::DeviceTarget target;
  target.kind = kind;
  target.name = "thing";
  target.warp_width = 64;
  return target;
}

// The part behind the prologue.
std::string tail(target::DeviceKind kind) {
  const auto assembled = assemble(target_of(kind), {.name = "m", .text = kText, .defines = {{"A", "1"}}}, false);
  EXPECT_TRUE(assembled.ok());
  return assembled->text.substr(assembled->text.find("#define A 1\n"));
}

TEST(Assemble, OpenclKernelsGetOffsetsOnTheSameLines) {
  EXPECT_EQ(tail(target::DeviceKind::kOpencl),
            "#define A 1\n#line 1 \"m\"\n"
            "FL_KERNEL(a)(FL_GLOBAL(const float) x,\n  int n, fl_u64 fl_offset_of_x) {"
            " x = (FL_GLOBAL(const float))((__global const fl_u8*)x + fl_offset_of_x);\n  x[0];\n}\n"
            "FL_KERNEL(b)(FL_GLOBAL(int) y, FL_DYNAMIC_LOCAL_PARAM, fl_u64 fl_offset_of_y) {"
            " y = (FL_GLOBAL(int))((__global const fl_u8*)y + fl_offset_of_y); }\n");
}

TEST(Assemble, CudaTakesTheTextAsItIs) {
  EXPECT_EQ(tail(target::DeviceKind::kCuda), std::string("#define A 1\n#line 1 \"m\"\n") + kText);
}

TEST(Assemble, TheWidthComesFromTheTargetAlone) {
  for (const auto kind : {target::DeviceKind::kOpencl, target::DeviceKind::kCuda, target::DeviceKind::kMusa}) {
    const auto assembled = assemble(target_of(kind), {.name = "m", .text = kText, .defines = {}}, false);
    ASSERT_TRUE(assembled.ok());
    EXPECT_NE(assembled->text.find("#define FL_WARP 64\n"), std::string::npos);
    EXPECT_EQ(assembled->text.find("#define FL_MUSA 1\n") != std::string::npos, kind == target::DeviceKind::kMusa);
  }
}

TEST(Assemble, KeysTellTextsDevicesAndDriversApart) {
  target::DeviceTarget target = target_of(target::DeviceKind::kCuda);
  const std::string key = cache_key(target, "text");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(cache_key(target, "text"), key);
  EXPECT_NE(cache_key(target, "texu"), key);
  for (std::string* part :
       {&target.name, &target.vendor, &target.driver_version, &target.compiler, &target.architecture}) {
    const std::string before = *part;
    *part += "2";
    EXPECT_NE(cache_key(target, "text"), key);
    *part = before;
  }
}

TEST(Assemble, FirstLinesAreShort) {
  EXPECT_EQ(first_lines("a\n\nb\nc\n", 3), "a\nb");
  EXPECT_EQ(first_lines(std::string(1000, 'x'), 1).size(), 300u);
  EXPECT_EQ(first_lines("", 3), "");
}

}  // namespace
}  // namespace firstlight::device
