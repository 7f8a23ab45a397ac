// SPDX-License-Identifier: Apache-2.0
#include "adapt/bring_up.h"
#include "adapt/model_options.h"
#include "compiler/compute_modes.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "device/cpu/detect.h"

namespace firstlight::adapt {
namespace {

TEST(BringUp, LoadsAModelOnEitherBackend) {
  for (const auto backend : {catalog::Backend::kReference, catalog::Backend::kCpu}) {
    const auto loaded = bring_up_golden(quick_options(backend));
    ASSERT_NE(loaded, nullptr);
    EXPECT_EQ(loaded->executor->plan().backend, catalog::backend_name(backend));
    EXPECT_EQ(loaded->executor->max_batch_tokens(), 16);
    EXPECT_EQ(loaded->pool->num_threads(), 1);
    EXPECT_EQ(loaded->context(), 128) << "the config's max_position_embeddings";
    EXPECT_EQ(loaded->model.architecture, "llama");
    EXPECT_GT(loaded->intake_seconds, 0);
    EXPECT_GT(loaded->compile_seconds, 0);
    EXPECT_GT(loaded->load_seconds, 0);
    EXPECT_FALSE(loaded->passes.empty());
  }
}

TEST(BringUp, StateIsStoredByBackendUnlessStated) {
  const target::CpuTarget cpu = device::detect_cpu();
  BringUpOptions options = quick_options();
  EXPECT_EQ(compile_options(options, cpu).state_dtype, tensor::DType::kF32);
  options.backend = catalog::Backend::kCpu;
  EXPECT_EQ(compile_options(options, cpu).state_dtype, tensor::DType::kF16);
  options.state_dtype = tensor::DType::kBF16;
  EXPECT_EQ(compile_options(options, cpu).state_dtype, tensor::DType::kBF16);
}

// Attention in bfloat16 and a state that holds no more bits go together, where the weights are rounded anyway.
TEST(BringUp, WeightsSayWhatStateIsStoredAs) {
  target::CpuTarget cpu = device::detect_cpu();
  cpu.features.bits |= target::kAvx2 | target::kAvx512 | target::kAvx512Vnni | target::kAvx512Bf16;
  BringUpOptions options = quick_options(catalog::Backend::kCpu);
  const auto loaded = bring_up(golden_path("llama"), options);
  ASSERT_TRUE(loaded.ok());
  const ir::Graph& graph = (*loaded)->model.graph;
  options.compute = catalog::ComputeMode::kF32;
  EXPECT_EQ(compile_options(options, cpu, graph).state_dtype, tensor::DType::kF16);
  EXPECT_EQ(compiler::attend_mode(graph, compile_options(options, cpu, graph)), catalog::ComputeMode::kF32);
  options.compute = catalog::ComputeMode::kBf16;
  EXPECT_EQ(compile_options(options, cpu, graph).state_dtype, tensor::DType::kBF16);
  EXPECT_EQ(compiler::attend_mode(graph, compile_options(options, cpu, graph)), catalog::ComputeMode::kBf16);
  options.state_dtype = tensor::DType::kQ8_0;
  EXPECT_EQ(compiler::attend_mode(graph, compile_options(options, cpu, graph)), catalog::ComputeMode::kBf16);
  options.state_dtype = tensor::DType::kF16;  // holds more than bfloat16 does
  EXPECT_EQ(compiler::attend_mode(graph, compile_options(options, cpu, graph)), catalog::ComputeMode::kF32);
  options.state_dtype.reset();
  cpu.features.bits &= ~static_cast<decltype(cpu.features.bits)>(target::kAvx512Bf16);
  EXPECT_EQ(compile_options(options, cpu, graph).state_dtype, tensor::DType::kF16);
}

TEST(BringUp, OptionsReachTheCompiler) {
  const target::CpuTarget cpu = device::detect_cpu();
  BringUpOptions options = quick_options(catalog::Backend::kCpu);
  options.compute = catalog::ComputeMode::kF32;
  options.disabled_passes = {"fuse_norm"};
  options.plain_kernels = true;
  const auto compile = compile_options(options, cpu);
  EXPECT_EQ(compile.compute, catalog::ComputeMode::kF32);
  EXPECT_TRUE(compile.disabled_passes.contains("fuse_norm"));
  EXPECT_TRUE(compile.plain_kernels);
  EXPECT_EQ(compile.features.bits, cpu.features.bits);
  ASSERT_EQ(compile.buckets.size(), 1u);
  EXPECT_EQ(compile.buckets[0].max_tokens, 16);
}

TEST(BringUp, RefusesWhatDoesNotFit) {
  const auto loaded = bring_up_golden(quick_options(catalog::Backend::kCpu));
  ASSERT_NE(loaded, nullptr);
  const BringUpOptions options = quick_options(catalog::Backend::kCpu);
  const auto load_on = [&](const target::CpuTarget& cpu, double headroom) {
    BringUpOptions one = options;
    one.headroom = headroom;
    auto plan = compiler::compile(loaded->model.graph, compile_options(one, cpu));
    EXPECT_TRUE(plan.ok());
    const auto executor = load(*loaded->checkpoint, std::move(*plan), *loaded->pool, one, cpu);
    return executor.ok() ? ok_status() : executor.status();
  };
  target::CpuTarget cpu = device::detect_cpu();
  EXPECT_TRUE(load_on(cpu, 0.2).ok());
  EXPECT_EQ(load_on(cpu, 1).code(), StatusCode::kOutOfMemory) << "all memory is headroom";
  target::CpuTarget full = cpu;
  full.available_bytes = 1000;
  const Status status = load_on(full, 0.2);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_NE(status.message().find("1000"), std::string::npos) << status.message();
  target::CpuTarget small = cpu;
  small.memory_bytes = 1000;
  EXPECT_EQ(load_on(small, 0.2).code(), StatusCode::kOutOfMemory);
}

TEST(BringUp, TellsOfProgressAndTime) {
  BringUpOptions options = quick_options(catalog::Backend::kCpu);
  Trace trace(TraceOptions{.keep_events = true});
  uint64_t last = 0, whole = 0;
  options.trace = &trace;
  options.load_progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    whole = total;
  };
  ASSERT_NE(bring_up_golden(options), nullptr);
  EXPECT_GT(whole, 0u);
  EXPECT_EQ(last, whole);
  const TestFolder folder;
  ASSERT_TRUE(trace.write_chrome_trace(folder / "trace.json").ok());
  EXPECT_FALSE(read_json_file(folder / "trace.json").empty());
}

TEST(BringUp, NamesWhatIsMissing) {
  const auto absent = bring_up("/no/such/model", quick_options());
  EXPECT_EQ(absent.status().code(), StatusCode::kNotFound);
  EXPECT_NE(absent.status().message().find("/no/such/model"), std::string::npos) << absent.status().message();

  TestFolder folder;
  folder.copy_golden();
  Json config = read_json_file(folder / "config.json");
  config["swiglu_limit"] = 7.0;
  write_text(folder / "config.json", dump_json(config));
  const auto unknown = bring_up(folder.path(), quick_options());
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(unknown.status().message().find("swiglu_limit"), std::string::npos) << unknown.status().message();
  BringUpOptions admitted = quick_options();
  admitted.intake.allow_unbound = {"swiglu_limit"};
  EXPECT_TRUE(bring_up(folder.path(), admitted).ok());
}

}  // namespace
}  // namespace firstlight::adapt
