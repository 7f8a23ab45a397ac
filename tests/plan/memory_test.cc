// SPDX-License-Identifier: Apache-2.0
// What is planned is what a run uses, byte for byte: every graph of graphs/*.ir runs watched, with work space planned
// in the arena; plans that promise too little are caught.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "adapt/compiler_services.h"
#include "model.h"

namespace firstlight::plans {
namespace {

std::string read_graph(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

compiler::CompileOptions planned_options(int num_workers) {
  compiler::CompileOptions options = options_for(catalog::Backend::kCpu);
  options.evaluator = &adapt::reference_evaluator();
  options.kernels = &adapt::linked_kernels();
  options.num_workers = num_workers;
  return options;
}

runtime::ExecutorOptions watched() {
  runtime::ExecutorOptions options;
  options.check_memory = true;
  return options;
}

TEST(Memory, RunsWriteWhereThePlanSaysAndNowhereElse) {
  const auto folder = std::filesystem::path(FL_SOURCE_DIR) / "tests/plan/graphs";
  int graphs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto model = make_model(read_graph(entry.path()), 11);
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const int threads : {1, 3}) {
      ThreadPool pool({.num_threads = threads, .pin = false});
      const auto options = planned_options(threads);
      const auto plain = run_model(*model, options_for(catalog::Backend::kCpu), pool);
      const auto found = run_model(*model, options, pool, watched());
      ASSERT_TRUE(plain.ok() && found.ok()) << entry.path().stem() << ": " << found.status().message();
      EXPECT_EQ(*found, *plain) << entry.path().stem();
    }
    ++graphs;
  }
  EXPECT_GE(graphs, 6);
}

constexpr const char* kProducts = R"(graph @products {
  input %tokens : i32[T]
  weight @embed : f32[48, 64]
  weight @w : f32[64, 64]
  %x = gather_rows @embed, %tokens : f32[T, 64]
  %y = linear %x, @w {compute = "auto"} : f32[T, 64]
  %z = map %y, %x {expr = add(mul(x0, x0), x1)} : f32[T, 64]
  %s = softmax %z : f32[T, 64]
  %t = map %s {expr = mul(exp(x0), 2.0)} : f32[T, 64]
  output t = %t
})";

// Sixteen tokens: the product prepares its rows in work space.
Status run_once(const Model& model, plan::Plan plan) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  const auto executor = FL_TRY(runtime::Executor::create(std::move(plan), model.checkpoint, pool, watched()));
  std::array<int32_t, 16> tokens{}, positions{};
  std::iota(tokens.begin(), tokens.end(), 0);
  std::iota(positions.begin(), positions.end(), 0);
  const std::array<int32_t, 1> rows = {15};
  const std::array<plan::SequenceSpan, 1> sequences = {plan::SequenceSpan{0, 16, 0, 16}};
  return executor->run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = sequences}, {});
}

Result<plan::Plan> plan_products(const Model& model) {
  compiler::CompileOptions options = planned_options(2);
  options.disabled_passes = {"all"};
  options.buckets = {{16, 8}};
  return compiler::compile(model.graph, options);
}

const plan::KernelStep& step_of(const plan::Plan& plan, ops::OpKind op) {
  for (const plan::Step& step : plan.body.steps) {
    const auto* kernel = std::get_if<plan::KernelStep>(&step.body);
    if (kernel != nullptr && kernel->op == op) return *kernel;
  }
  ADD_FAILURE() << "no such step";
  return std::get<plan::KernelStep>(plan.body.steps[0].body);
}

TEST(Memory, WorkspaceIsPartOfTheArena) {
  const auto model = make_model(kProducts, 3).value();
  const auto plan = plan_products(model).value();
  const plan::BufferId workspace = step_of(plan, ops::OpKind::kLinear).workspace;
  ASSERT_GE(workspace, 0);
  const auto at = static_cast<size_t>(workspace);
  const plan::Bucket& bucket = plan.buckets[0];
  EXPECT_GT(bucket.bytes[at], 0);
  EXPECT_GE(bucket.offsets[at], 0);
  EXPECT_LE(bucket.offsets[at] + bucket.bytes[at], bucket.arena_bytes);
  const Status status = run_once(model, plan_products(model).value());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Memory, APlanWithTooLittleWorkspaceIsRefused) {
  const auto model = make_model(kProducts, 3).value();
  auto plan = plan_products(model).value();
  plan.buckets[0].bytes[static_cast<size_t>(step_of(plan, ops::OpKind::kLinear).workspace)] -= 64;
  const Status status = run_once(model, std::move(plan));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("bytes of workspace"), std::string::npos) << status.message();
}

// The plan believes a result to be half as wide as the step before it reads: the kernel writes past it.
TEST(Memory, AKernelThatWritesPastItsResultIsCaught) {
  const auto model = make_model(kProducts, 3).value();
  auto plan = plan_products(model).value();
  const plan::KernelStep& product = step_of(plan, ops::OpKind::kLinear);
  plan.buffer(product.outputs[0]).type.shape[1] = tensor::Dim(32);
  const Status status = run_once(model, std::move(plan));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("beside its results"), std::string::npos) << status.message();
}

TEST(Memory, ResultsTakeThePlaceOfOperandsThatNobodyReadsAnyMore) {
  const auto model = make_model(kProducts, 3).value();
  const auto plan = plan_products(model).value();
  int aliases = 0;
  for (const plan::Buffer& buffer : plan.buffers) aliases += buffer.kind == plan::Buffer::Kind::kAlias ? 1 : 0;
  EXPECT_EQ(aliases, 3) << plan::print(plan);  // the sum takes the product's place, softmax the sum's, the last formula softmax's
  EXPECT_EQ(plan.buckets[0].arena_bytes, plan.buckets[0].lower_bound_bytes);
}

}  // namespace
}  // namespace firstlight::plans
