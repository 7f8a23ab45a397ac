// SPDX-License-Identifier: Apache-2.0
// The dialect's kernels as CUDA for sm_90, on machines without such a device: through NVRTC and through nvcc, where
// they are; a skip in words where not.
#include "device/compile_check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "device/assemble.h"
#include "device/kernel_library.h"

namespace firstlight::device {
namespace {

constexpr const char* kEveryWord = R"(
FL_CONSTANT float table[2] = {1.0f, 2.0f};
FL_FUNCTION float of_local(FL_LOCAL_POINTER(const float) p) { return p[1]; }
FL_KERNEL(all)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y, FL_GLOBAL(int) n, FL_GLOBAL(const fl_u32) u, fl_i64 a, uint b,
               FL_DYNAMIC_LOCAL_PARAM) {
  FL_WARP_STATE;
  FL_DYNAMIC_LOCAL(float, dynamic);
  FL_LOCAL(float, parts, [128]);
  dynamic[fl_thread()] = parts[fl_lane()] = x[fl_global_id(0) + a] + table[b & 1];
  FL_BARRIER();
  float v = fl_warp_sum(of_local(parts)) + fl_warp_max(dynamic[0]) + (float)fl_warp_any(fl_thread() == 3);
  v += fl_warp_shuffle(v, 1) + fl_warp_shuffle_xor(v, 1);
  v += fl_exp(v) + fl_exp2(v) + fl_expm1(v) + fl_log(v) + fl_log1p(v) + fl_sin(v) + fl_cos(v) + fl_tanh(v) + fl_erf(v);
  v += fl_pow(v, 2.0f) + fl_sqrt(v) + fl_rsqrt(v) + fl_sigmoid(v) + fl_sign(v) + fl_abs(v) + fl_floor(v) + fl_ceil(v);
  v += fl_trunc(v) + fl_rint(v) + fl_min(v, FL_INFINITY) + fl_max(v, FL_NAN) + fl_fma(v, v, v);
  FL_UNROLL
  for (int i = 0; i < 4; ++i) v += fl_f16_to_f32(fl_f32_to_f16(v)) + fl_bf16_to_f32(fl_f32_to_bf16(v));
  v += fl_e4m3_to_f32(fl_f32_to_e4m3(v)) + fl_e4m3fnuz_to_f32(3) + fl_e5m2_to_f32(3) + fl_e8m0_to_f32(3) + fl_e2m1_to_f32(3u);
  const fl_u32x4 w = fl_load_u32x4(u);
  n[fl_global_id(1)] = fl_dot4_i8(w.x, w.y, fl_is_nan(v));
  fl_f32x4 q = fl_load_f32x4(x);
  q.x = v;
  fl_store_f32x4(y, q);
  fl_atomic_add_i32(n, 1);
  fl_atomic_max_i32(n, fl_group_count(2) + fl_local_size(1) + fl_warp_id());
  fl_atomic_add_f32(y, v);
  FL_ASSERT(v > 0.0f);
}
)";

std::vector<ModuleSource> sources() {
  std::vector<ModuleSource> all = {{.name = "every_word", .text = kEveryWord, .defines = {}}};
  for (const EmbeddedText& text : device_kernels().texts) {
    all.push_back({.name = std::string(text.path), .text = std::string(text.text), .defines = {}});
  }
  return all;
}

TEST(CompileCheck, DialectBuildsWithNvrtc) {
  for (const ModuleSource& source : sources()) {
    for (const char* architecture : {"sm_90", "sm_75"}) {  // with matrix units and with their twin
      const Status status = compiles_for_cuda(source, architecture);
      if (status.code() == StatusCode::kUnsupported) GTEST_SKIP() << status.message();
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }
}

TEST(CompileCheck, WhatDoesNotBuildIsNamed) {
  const Status status = compiles_for_cuda(
      {.name = "broken", .text = "FL_KERNEL(k)(FL_GLOBAL(float) x) { x[0] = no_such_word; }", .defines = {}}, "sm_90");
  if (status.code() == StatusCode::kUnsupported) GTEST_SKIP() << status.message();
  EXPECT_EQ(status.code(), StatusCode::kInvalidData);
  EXPECT_NE(status.message().find("no_such_word"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("broken(1)"), std::string::npos) << "the line of the source: " << status.message();
}

TEST(CompileCheck, DialectBuildsWithNvcc) {
  if (std::system("nvcc --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no nvcc on this machine";
  const auto folder = std::filesystem::temp_directory_path() / ("firstlight-compile-check-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const ModuleSource& source : sources()) {
    const auto assembled = assemble(cuda_target_of("sm_90"), source, false);
    ASSERT_TRUE(assembled.ok()) << assembled.status().to_string();
    std::ofstream(folder / "kernel.cu") << assembled->text;
    const std::string command = "cd '" + folder.string() + "' && nvcc -arch=sm_90 -fmad=false -cubin kernel.cu -o " +
                                "kernel.cubin >log.txt 2>&1";
    const int status = std::system(command.c_str());
    std::ostringstream log;
    log << std::ifstream(folder / "log.txt").rdbuf();
    EXPECT_EQ(status, 0) << source.name << ": " << log.str();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace firstlight::device
