// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <gtest/gtest.h>

namespace firstlight::cli {
namespace {

TEST(BringUpOptions, EveryFlagArrives) {
  const auto options = bring_up_options({.backend = "cpu",
                                         .threads = 3,
                                         .compute = "bf16",
                                         .kv_dtype = "f32",
                                         .no_pass = {"a", "b"},
                                         .no_tuned = true,
                                         .allow_unbound = {"key"},
                                         .vendor_activations = true,
                                         .spec = "s.lua",
                                         .architectures = "dir"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->backend, catalog::Backend::kCpu);
  EXPECT_EQ(options->num_threads, 3);
  EXPECT_EQ(options->compute, catalog::ComputeMode::kBf16);
  EXPECT_EQ(options->state_dtype, tensor::DType::kF32);
  EXPECT_EQ(options->disabled_passes.size(), 2u);
  EXPECT_TRUE(options->plain_kernels);
  EXPECT_EQ(options->intake.allow_unbound, (std::vector<std::string>{"key"}));
  EXPECT_TRUE(options->intake.vendor_activations);
  EXPECT_EQ(options->intake.spec_file, "s.lua");
  EXPECT_EQ(options->intake.architectures_dir, "dir");
}

TEST(BringUpOptions, DefaultsLeaveTheChoiceToThePlan) {
  const auto options = bring_up_options({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->backend, catalog::Backend::kCpu);
  EXPECT_FALSE(options->compute.has_value());
  EXPECT_FALSE(options->state_dtype.has_value());
  EXPECT_FALSE(options->plain_kernels);
}

TEST(BringUpOptions, ModesByTheirNames) {
  EXPECT_EQ(bring_up_options({.compute = "f32"})->compute, catalog::ComputeMode::kF32);
  EXPECT_EQ(bring_up_options({.compute = "w8a8"})->compute, catalog::ComputeMode::kInt8);
  EXPECT_EQ(bring_up_options({.compute = "w4a8"})->compute, catalog::ComputeMode::kInt8);
  EXPECT_EQ(bring_up_options({.kv_dtype = "f16"})->state_dtype, tensor::DType::kF16);
  EXPECT_EQ(bring_up_options({.kv_dtype = "bf16"})->state_dtype, tensor::DType::kBF16);
  EXPECT_EQ(bring_up_options({.kv_dtype = "fp8"})->state_dtype, tensor::DType::kMXFP8);
  EXPECT_EQ(bring_up_options({.kv_dtype = "int8"})->state_dtype, tensor::DType::kQ8_0);
  EXPECT_EQ(bring_up_options({.kv_dtype = "int4"})->state_dtype, tensor::DType::kQ4_1S);
  EXPECT_EQ(bring_up_options({.evict = "sinks:4,window:60"})->evict, (compiler::Eviction{4, 60}));
  EXPECT_EQ(bring_up_options({.evict = "window:7"})->evict, (compiler::Eviction{0, 7}));
  EXPECT_EQ(bring_up_options({.backend = "reference", .compute = "f32"})->backend, catalog::Backend::kReference);
  EXPECT_EQ(bring_up_options({.backend = "musa"})->backend, catalog::Backend::kMusa);
  EXPECT_EQ(bring_up_options({.backend = "opencl"})->backend, catalog::Backend::kOpencl);
  EXPECT_EQ(bring_up_options({.backend = "simt", .warp = 128})->warp_width, 128);
}

TEST(BringUpOptions, WrongValuesAreNamed) {
  struct Case {
    CommonFlags flags;
    StatusCode code;
    const char* named;
  };
  for (const Case& one : {Case{{.backend = "tpu"}, StatusCode::kInvalidArgument, "tpu"},
                          {{.backend = ""}, StatusCode::kInvalidArgument, "--backend"},
                          {{.compute = "f64"}, StatusCode::kInvalidArgument, "f64"},
                          {{.compute = "fp8"}, StatusCode::kUnsupported, "fp8"},
                          {{.compute = "w4a16"}, StatusCode::kUnsupported, "w4a16"},
                          {{.backend = "reference", .compute = "bf16"}, StatusCode::kInvalidArgument, "reference"},
                          {{.backend = "opencl", .compute = "bf16"}, StatusCode::kUnsupported, "bf16"},
                          {{.backend = "simt", .compute = "w8a8"}, StatusCode::kUnsupported, "w8a8"},
                          {{.backend = "cpu", .warp = 64}, StatusCode::kInvalidArgument, "--warp"},
                          {{.kv_dtype = "q8_0"}, StatusCode::kInvalidArgument, "q8_0"},
                          {{.evict = "sinks:4"}, StatusCode::kInvalidArgument, "sinks:4"},
                          {{.evict = "sinks:4,window:0"}, StatusCode::kInvalidArgument, "window:0"},
                          {{.evict = "sinks:-1,window:9"}, StatusCode::kInvalidArgument, "sinks:-1"},
                          {{.evict = "window:9,sinks:4"}, StatusCode::kInvalidArgument, "window:9"},
                          {{.evict = "window:9x"}, StatusCode::kInvalidArgument, "9x"},
                          {{.threads = -1}, StatusCode::kInvalidArgument, "-1"},
                          {{.threads = 1025}, StatusCode::kInvalidArgument, "1025"},
                          {{.tp = 0}, StatusCode::kInvalidArgument, "--tp"},
                          {{.tp = 2}, StatusCode::kUnsupported, "--tp"},
                          {{.pp = 2}, StatusCode::kUnsupported, "--pp"},
                          {{.ep = 2}, StatusCode::kUnsupported, "--ep"}}) {
    const Status status = bring_up_options(one.flags).status();
    EXPECT_EQ(status.code(), one.code) << one.named;
    EXPECT_NE(status.message().find(one.named), std::string::npos) << status.message();
  }
}

TEST(ParseIntegers, TakesCommasAndSpaces) {
  EXPECT_EQ(*parse_integers("--x", "7"), (std::vector<int64_t>{7}));
  EXPECT_EQ(*parse_integers("--x", "1, 2,\t-3 "), (std::vector<int64_t>{1, 2, -3}));
  EXPECT_EQ(*parse_integers("--x", "9223372036854775807"), (std::vector<int64_t>{INT64_MAX}));
}

TEST(ParseIntegers, NamesFlagAndWord) {
  for (const char* text : {"", " ", ",", "1,,2", "1,", ",1", "x", "1 2", "1.5", "0x10", "+1", "9223372036854775808"}) {
    const auto numbers = parse_integers("--x", text);
    EXPECT_EQ(numbers.status().code(), StatusCode::kInvalidArgument) << "'" << text << "'";
    EXPECT_NE(numbers.status().message().find("--x: '"), std::string::npos) << numbers.status().message();
  }
}

TEST(ParseTokenIds, AreNeitherNegativeNorTooLarge) {
  EXPECT_EQ(*parse_token_ids("--tokens", "0,2147483647"), (std::vector<int32_t>{0, 2147483647}));
  for (const char* text : {"-1", "2147483648", "4294967297"}) {
    const auto ids = parse_token_ids("--stop-ids", text);
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(ids.status().message().find("--stop-ids"), std::string::npos) << ids.status().message();
  }
}

}  // namespace
}  // namespace firstlight::cli
