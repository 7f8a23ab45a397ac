// SPDX-License-Identifier: Apache-2.0
// The forms a step may run in: generated functions built before or beside the run, and the canary that finds a wrong
// form on one shape, stops it there and nowhere else, and keeps the answer right.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "device/cpu/detect.h"
#include "device/cpu/native_code.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr char kGraph[] = R"(graph @forms {
  input %tokens : i32[T]
  weight @embed : f32[8, 32]
  weight @norm_a : f32[32]
  weight @norm_b : f32[8]
  %x = gather_rows @embed, %tokens : f32[T, 32]
  %a = rms_norm %x, @norm_a {eps = 1e-05} : f32[T, 32]
  %r = reshape %x {shape = "T,4,8"} : f32[T, 4, 8]
  %b = rms_norm %r, @norm_b {eps = 1e-05} : f32[T, 4, 8]
  %s = softmax %b : f32[T, 4, 8]
  %m = reduce %s {op = "max"} : f32[T, 4, 1]
  %c = map %b, %m {expr = mul(x0, sigmoid(x1))} : f32[T, 4, 8]
  %f = reshape %c {shape = "T,32"} : f32[T, 32]
  %y = map %a, %f {expr = add(x0, tanh(x1))} : f32[T, 32]
  output y = %y
}
)";

class FormsTest : public testing::Test {
 protected:
  plan::Plan compiled(bool plain) {
    compiler::CompileOptions options = options_for(catalog::Backend::kCpu);
    options.plain_kernels = plain;
    options.disabled_passes = {"fuse_rows"};  // six steps, each with forms of its own
    options.buckets = {{16, 1}};
    return compiler::compile(model_.graph, options).value();
  }
  std::unique_ptr<runtime::Executor> executor(plan::Plan plan, runtime::GeneratedMode mode, int64_t canary = 0,
                                              const std::string& compiler = {}) {
    return runtime::Executor::create(
               std::move(plan), model_.checkpoint, pool_,
               {.generated = mode, .cache_dir = cache_.path(), .host_compiler = compiler, .canary_every = canary})
        .value();
  }
  static std::vector<float> run(runtime::Executor& executor) {
    const std::vector<int32_t> tokens = {1, 5, 2, 7, 0};
    const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
    const plan::SequenceSpan sequence{.first_row = 0, .num_tokens = 5};
    EXPECT_TRUE(
        executor.run({.tokens = tokens, .positions = positions, .output_rows = {}, .sequences = {&sequence, 1}}, {})
            .ok());
    const tensor::View y = executor.output("y");
    return {y.as<float>(), y.as<float>() + y.num_elements()};
  }
  std::vector<float> right() { return run(*executor(compiled(true), runtime::GeneratedMode::kOff)); }
  static void expect_near(const std::vector<float>& found, const std::vector<float>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-6f) << i;
  }
  // The norm over rows of `width`.
  static plan::KernelStep& norm(plan::Plan& plan, int64_t width) {
    for (plan::Step& step : plan.body.steps) {
      auto& kernel = std::get<plan::KernelStep>(step.body);
      const bool is_it =
          kernel.op == ops::OpKind::kRmsNorm && plan.buffer(kernel.outputs[0]).type.shape.back() == tensor::Dim(width);
      if (is_it) return kernel;
    }
    FL_CHECK(false);
  }

  TemporaryFolder cache_;
  Model model_ = make_model(kGraph, 3).value();
  ThreadPool pool_{{2, false, 20}};
};

TEST_F(FormsTest, GeneratedFunctionsTakeTheirPlaces) {
  if (const auto compiler = device::HostCompiler::find(); !compiler.ok()) GTEST_SKIP() << compiler.status().message();
  const auto waiting = executor(compiled(true), runtime::GeneratedMode::kWait);
  EXPECT_EQ(waiting->num_generated_steps(), 6) << waiting->generated_status().message();
  expect_near(run(*waiting), right());
  const auto cached = executor(compiled(true), runtime::GeneratedMode::kCached);
  EXPECT_EQ(cached->num_generated_steps(), 6);
}

TEST_F(FormsTest, ComposedUntilTheyAreBuilt) {
  if (const auto compiler = device::HostCompiler::find(); !compiler.ok()) GTEST_SKIP() << compiler.status().message();
  const auto wanted = right();
  const auto cached = executor(compiled(true), runtime::GeneratedMode::kCached);
  EXPECT_EQ(cached->num_generated_steps(), 0);  // nobody built them yet
  const auto built = executor(compiled(true), runtime::GeneratedMode::kBackground);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (built->num_generated_steps() == 0 && built->generated_status().ok() &&
         std::chrono::steady_clock::now() < end) {
    expect_near(run(*built), wanted);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(built->num_generated_steps(), 6) << built->generated_status().message();
  expect_near(run(*built), wanted);
}

TEST_F(FormsTest, AnExecutorMayGoWhileItsCodeIsBuilt) {
  executor(compiled(true), runtime::GeneratedMode::kBackground).reset();
}

TEST_F(FormsTest, WithoutACompilerTheComposedFormsStay) {
  const auto composed = executor(compiled(true), runtime::GeneratedMode::kWait, 0, "/nowhere/c++");
  EXPECT_EQ(composed->num_generated_steps(), 0);
  EXPECT_EQ(composed->generated_status().code(), StatusCode::kUnsupported);
  expect_near(run(*composed), right());
}

TEST_F(FormsTest, AGeneratedFunctionWrongOnOneShapeIsDemotedThere) {
  if (const auto compiler = device::HostCompiler::find(); !compiler.ok()) GTEST_SKIP() << compiler.status().message();
  plan::Plan plan = compiled(true);
  const std::string name = norm(plan, 8).generated;
  const size_t at = plan.source.find("x[i] * r", plan.source.find(name));
  ASSERT_NE(at, std::string::npos);
  plan.source.insert(at, "1.01f * ");
  const auto checked = executor(std::move(plan), runtime::GeneratedMode::kWait, 1);
  expect_near(run(*checked), right());  // the run that finds the fault gives the right answer already
  ASSERT_EQ(checked->demotions().size(), 1u);
  EXPECT_EQ(checked->demotions()[0].kernel, name);
  EXPECT_EQ(checked->demotions()[0].to, "rms_norm_any_f32_ref");
  EXPECT_NEAR(checked->demotions()[0].error, 0.01, 1e-3);
  EXPECT_NE(checked->demotions()[0].signature.find("f32[T, 4, 8]"), std::string::npos);
  EXPECT_EQ(checked->num_generated_steps(), 5);
  expect_near(run(*checked), right());
  EXPECT_EQ(checked->demotions().size(), 1u);
}

TEST_F(FormsTest, ATunedKernelWrongOnOneShapeIsDemotedThere) {
  if (!device::detect_cpu().features.has({target::kAvx2})) GTEST_SKIP() << "needs AVX2";
  plan::Plan plan = compiled(false);
  EXPECT_EQ(norm(plan, 8).fallback, "rms_norm_any_f32_ref");
  norm(plan, 8).symbol = "layer_norm_f32_f32_avx2";
  const std::string other = norm(plan, 32).symbol;
  const auto checked = executor(std::move(plan), runtime::GeneratedMode::kOff, 4);
  for (int i = 0; i < 9; ++i) expect_near(run(*checked), right());
  ASSERT_EQ(checked->demotions().size(), 1u);
  EXPECT_EQ(checked->demotions()[0].kernel, "layer_norm_f32_f32_avx2");
  EXPECT_NE(checked->demotions()[0].kernel, other);
}

TEST_F(FormsTest, HealthyFormsStay) {
  const auto checked = executor(compiled(false), runtime::GeneratedMode::kOff, 1);
  for (int i = 0; i < 3; ++i) expect_near(run(*checked), right());
  EXPECT_TRUE(checked->demotions().empty());
}

}  // namespace
}  // namespace firstlight::plans
