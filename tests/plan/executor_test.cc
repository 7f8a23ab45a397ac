// SPDX-License-Identifier: Apache-2.0
// The executor: what it refuses and how it says so, experts' routing, where weights lie and what is given back,
// progress, step timers. Plans come from the compiler, checkpoints are written here.
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "formats/safetensors.h"
#include "ir/text.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr int64_t kVocabulary = 8, kWidth = 8, kExperts = 4, kPerToken = 2;

// y[t] = sum over j of gain[t, j] * (weight of expert route[t, j]) applied to x[t]; routes and gains by token.
std::string expert_graph(const std::string& weight_on) {
  return R"(graph @routes {
  input %tokens : i32[T]
  weight @embed : f32[8, 8]
  weight @routes : i32[8, 2]
  weight @gains : f32[8, 2]
  weight @experts : f32[4, 8, 8]
  %x = gather_rows @embed, %tokens : f32[T, 8]
  %i = gather_rows @routes, %tokens : i32[T, 2]
  %g = gather_rows @gains, %tokens : f32[T, 2]
  %y = per_expert %x, %i, %g, @experts {num_experts = 4, weight_on = ")" +
         weight_on + R"("} : f32[T, 8] {
    (%r: f32[N, 8], %w: f32[8, 8])
    %p = linear %r, %w {compute = "auto"} : f32[N, 8]
    %t = map %p {expr = mul(x0, x0)} : f32[N, 8]
    yield %t
  }
  output y = %y
}
)";
}

constexpr char kDense[] = R"(graph @dense {
  input %tokens : i32[T]
  weight @embed : f32[8, 8]
  weight @w : f32[8, 8]
  weight @v : bf16[8, 8]
  %x = gather_rows @embed, %tokens : f32[T, 8]
  %wt = transpose @w {perm = [1, 0]} : f32[8, 8]
  %y = linear %x, %wt {compute = "auto"} : f32[T, 8]
  %z = linear %y, @v {compute = "auto"} : f32[T, 8]
  output z = %z
}
)";

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Tensor {
  formats::TensorPlan plan;
  std::vector<std::byte> bytes;
};

formats::Checkpoint write_checkpoint(const TemporaryFolder& folder, const std::vector<Tensor>& tensors) {
  std::vector<formats::TensorPlan> plans;
  for (const Tensor& tensor : tensors) plans.push_back(tensor.plan);
  auto writer = formats::SafetensorsWriter::create(folder.path(), plans).value();
  for (const Tensor& tensor : tensors) EXPECT_TRUE(writer.append(tensor.plan.name, tensor.bytes).ok());
  EXPECT_TRUE(writer.finish().ok());
  return formats::Checkpoint::open(folder.path()).value();
}

std::vector<float> ramp(int64_t count, float start, float step) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + step * static_cast<float>(i % 13);
  return values;
}

plan::Plan compiled(const std::string& text, compiler::CompileOptions options) {
  auto plan = compiler::compile(ir::parse(text).value(), options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

class ExecutorTest : public testing::Test {
 protected:
  Result<std::unique_ptr<runtime::Executor>> create(const formats::Checkpoint& checkpoint,
                                                    const runtime::ExecutorOptions& options = {}) {
    return runtime::Executor::create(compiled(kDense, options_for(catalog::Backend::kCpu)), checkpoint, pool_, options);
  }

  static std::vector<Tensor> dense_tensors() {
    return {{{"embed", tensor::DType::kF32, {8, 8}}, bytes_of(ramp(64, -1, 0.25f))},
            {{"w", tensor::DType::kF32, {8, 8}}, bytes_of(ramp(64, 0.5f, -0.125f))},
            {{"v", tensor::DType::kBF16, {8, 8}}, bytes_of(std::vector<uint16_t>(64, 0x3f00))}};
  }

  Status run(runtime::Executor& executor, const std::vector<int32_t>& tokens, const std::vector<int32_t>& rows) {
    std::vector<int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<plan::SequenceSpan> spans = {
        {.first_row = 0, .num_tokens = static_cast<int64_t>(tokens.size()), .start_position = 0, .planned_length = 16}};
    return executor.run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = spans}, {});
  }

  ThreadPool pool_{{.num_threads = 3, .pin = false}};
  TemporaryFolder folder_;
};

TEST_F(ExecutorTest, MissingTensorIsNamed) {
  auto tensors = dense_tensors();
  tensors.pop_back();
  const auto checkpoint = write_checkpoint(folder_, tensors);
  const auto executor = create(checkpoint);
  EXPECT_EQ(executor.code(), StatusCode::kNotFound);
  EXPECT_NE(executor.status().message().find("\"v\""), std::string::npos) << executor.status().message();
}

TEST_F(ExecutorTest, WrongTypeAndWrongSizeSayFoundAndWanted) {
  auto tensors = dense_tensors();
  tensors[2] = {{"v", tensor::DType::kF16, {8, 8}}, tensors[2].bytes};
  const auto other_type = write_checkpoint(folder_, tensors);
  const auto refused = create(other_type);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidData);
  EXPECT_NE(refused.status().message().find("F16"), std::string::npos) << refused.status().message();
  EXPECT_NE(refused.status().message().find("bf16[8, 8]"), std::string::npos) << refused.status().message();

  tensors = dense_tensors();
  tensors[1] = {{"w", tensor::DType::kF32, {8, 4}}, bytes_of(ramp(32, 0, 1))};
  const TemporaryFolder second;
  const auto other_size = write_checkpoint(second, tensors);
  const auto too_small = create(other_size);
  EXPECT_EQ(too_small.code(), StatusCode::kInvalidData);
  EXPECT_NE(too_small.status().message().find("128 bytes"), std::string::npos) << too_small.status().message();
  EXPECT_NE(too_small.status().message().find("256 wanted"), std::string::npos) << too_small.status().message();
}

TEST_F(ExecutorTest, KernelWithoutBodyIsAFaultOfOurs) {
  const auto checkpoint = write_checkpoint(folder_, dense_tensors());
  auto plan = compiled(kDense, options_for(catalog::Backend::kCpu));
  std::get<plan::KernelStep>(plan.body.steps.back().body).symbol = "linear_of_another_build";
  const auto executor = runtime::Executor::create(std::move(plan), checkpoint, pool_, {});
  EXPECT_EQ(executor.code(), StatusCode::kInternal);
  EXPECT_NE(executor.status().message().find("linear_of_another_build"), std::string::npos);
}

TEST_F(ExecutorTest, BatchesBeyondTheBucketsAreRefused) {
  const auto checkpoint = write_checkpoint(folder_, dense_tensors());
  const auto executor = create(checkpoint).value();
  EXPECT_EQ(executor->max_batch_tokens(), 16);
  const Status long_batch = run(*executor, std::vector<int32_t>(17, 1), {0});
  EXPECT_EQ(long_batch.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(long_batch.message().find("17"), std::string::npos) << long_batch.message();
  EXPECT_NE(long_batch.message().find("16"), std::string::npos) << long_batch.message();
  EXPECT_EQ(run(*executor, {1, 2}, std::vector<int32_t>(9, 0)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(run(*executor, {1, 2}, {2}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(run(*executor, {1, 2}, {-1}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(run(*executor, {1, 2}, {1}).ok());
  EXPECT_EQ(executor->output("z").num_rows(), 1);
  EXPECT_FALSE(executor->output("no such output").present());
}

// Sequences bound how many groups of tokens a batch can complete, so a bucket bounds them too.
TEST_F(ExecutorTest, MoreSequencesThanTheBucketHasAreRefused) {
  const auto checkpoint = write_checkpoint(folder_, dense_tensors());
  auto options = options_for(catalog::Backend::kCpu);
  options.buckets = {{.max_tokens = 16, .max_outputs = 16, .max_sequences = 2}};
  const auto executor = runtime::Executor::create(compiled(kDense, options), checkpoint, pool_, {}).value();
  EXPECT_EQ(executor->max_batch_sequences(), 2);
  const std::vector<int32_t> tokens = {1, 2, 3}, positions = {0, 0, 0}, rows = {2};
  std::vector<plan::SequenceSpan> spans;
  for (int64_t i = 0; i < 3; ++i) {
    spans.push_back({.first_row = i, .num_tokens = 1, .start_position = 0, .planned_length = 16});
  }
  const Status status =
      executor->run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = spans}, {});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("3 sequences"), std::string::npos) << status.message();
  EXPECT_EQ(compiler::BucketSize({.max_tokens = 512, .max_outputs = 16}).sequences(), 16);
  EXPECT_EQ(compiler::BucketSize({.max_tokens = 8, .max_outputs = 0}).sequences(), 1);
}

TEST_F(ExecutorTest, MemoryIsCountedBeforeAnythingIsLoaded) {
  const auto checkpoint = write_checkpoint(folder_, dense_tensors());
  const auto free = create(checkpoint).value();
  const auto& use = free->memory();
  EXPECT_GT(use.resident_bytes, 0);
  const int64_t needed = use.resident_bytes + use.arena_bytes + use.workspace_bytes;
  int calls = 0;
  const auto count = [&](uint64_t, uint64_t) { ++calls; };
  // The turned matrix is a temporary of 256 bytes while the first of the packed ones is made.
  const auto refused = create(checkpoint, {.load_progress = count, .memory_limit_bytes = needed - 1});
  EXPECT_EQ(refused.code(), StatusCode::kOutOfMemory);
  EXPECT_NE(refused.status().message().find(std::to_string(needed - 1) + " available"), std::string::npos)
      << refused.status().message();
  EXPECT_NE(refused.status().message().find("bytes needed"), std::string::npos);
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(create(checkpoint, {.memory_limit_bytes = needed + 256}).ok());
}

TEST_F(ExecutorTest, ProgressReachesTheBytesThatLoadStepsRead) {
  const auto checkpoint = write_checkpoint(folder_, dense_tensors());
  std::vector<std::pair<uint64_t, uint64_t>> calls;
  ASSERT_TRUE(
      create(checkpoint, {.load_progress = [&](uint64_t done, uint64_t total) { calls.emplace_back(done, total); }})
          .ok());
  ASSERT_GE(calls.size(), 2u);
  EXPECT_EQ(calls.front().first, 0u);
  EXPECT_EQ(calls.back().first, calls.back().second);
  EXPECT_EQ(calls.back().second, 64u * 4 + 64u * 2);  // w and v; the table is gathered from where it lies
  for (size_t i = 1; i < calls.size(); ++i) EXPECT_GE(calls[i].first, calls[i - 1].first);
}

TEST_F(ExecutorTest, StepTimersHaveTheirClass) {
  const auto checkpoint = write_checkpoint(folder_, dense_tensors());
  Trace trace;
  const auto executor = create(checkpoint, {.trace = &trace}).value();
  EXPECT_EQ(trace.total(StepClass::kIo).count, static_cast<int64_t>(executor->plan().load_steps.size()));
  EXPECT_EQ(trace.total(StepClass::kCompute).count, 0);
  ASSERT_TRUE(run(*executor, {1, 2, 3}, {2}).ok());
  EXPECT_EQ(trace.total(StepClass::kCompute).count, 2);  // the products
  EXPECT_GE(trace.total(StepClass::kMemory).count, 1);   // rows of the table
  executor->set_trace(nullptr);
  ASSERT_TRUE(run(*executor, {1}, {0}).ok());
  EXPECT_EQ(trace.total(StepClass::kCompute).count, 2);
}

// One byte in front of everything: floats lie at odd addresses, as safetensors allows.
TEST_F(ExecutorTest, UnalignedTensorsAreCopied) {
  const auto tensors = dense_tensors();
  std::string header = "{\"pad\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}";
  std::string data(1, '\7');
  for (const Tensor& tensor : tensors) {
    const std::string dtype = tensor.plan.dtype == tensor::DType::kF32 ? "F32" : "BF16";
    header += ",\"" + tensor.plan.name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[8,8],\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  std::ofstream(folder_.path() + "/model.safetensors", std::ios::binary) << file + header + data;
  const auto odd = formats::Checkpoint::open(folder_.path());
  ASSERT_TRUE(odd.ok()) << odd.status().message();
  const TemporaryFolder second;
  const auto even = write_checkpoint(second, tensors);

  const auto copied = create(*odd).value();
  const auto mapped = create(even).value();
  EXPECT_EQ(copied->memory().resident_bytes, mapped->memory().resident_bytes + 256);  // the table is copied
  EXPECT_EQ(copied->memory().mapped_bytes, mapped->memory().mapped_bytes - 256);
  ASSERT_TRUE(run(*copied, {3, 4}, {0, 1}).ok());
  ASSERT_TRUE(run(*mapped, {3, 4}, {0, 1}).ok());
  const auto a = copied->output("z"), b = mapped->output("z");
  for (int64_t i = 0; i < 2 * kWidth; ++i) EXPECT_EQ(a.as<float>()[i], b.as<float>()[i]);
}

class Experts : public ExecutorTest, public testing::WithParamInterface<std::tuple<catalog::Backend, const char*>> {
 protected:
  // Compares with the sum written out. `routes` and `gains` are rows of two per token id.
  void check(const std::vector<int32_t>& routes, const std::vector<int32_t>& tokens) {
    const auto [backend, weight_on] = GetParam();
    const auto embed = ramp(kVocabulary * kWidth, -0.7f, 0.11f);
    const auto experts = ramp(kExperts * kWidth * kWidth, 0.6f, -0.09f);
    const auto gains = ramp(kVocabulary * kPerToken, 0.25f, 0.125f);
    const auto checkpoint =
        write_checkpoint(folder_, {{{"embed", tensor::DType::kF32, {8, 8}}, bytes_of(embed)},
                                   {{"routes", tensor::DType::kI32, {8, 2}}, bytes_of(routes)},
                                   {{"gains", tensor::DType::kF32, {8, 2}}, bytes_of(gains)},
                                   {{"experts", tensor::DType::kF32, {4, 8, 8}}, bytes_of(experts)}});
    const auto executor =
        runtime::Executor::create(compiled(expert_graph(weight_on), options_for(backend)), checkpoint, pool_, {});
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    std::vector<int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    for (int twice = 0; twice < 2; ++twice) ASSERT_TRUE(run(**executor, tokens, rows).ok());
    const auto found = (*executor)->output("y");
    ASSERT_EQ(found.num_rows(), static_cast<int64_t>(tokens.size()));
    const bool on_input = std::string(weight_on) == "input";
    for (size_t t = 0; t < tokens.size(); ++t) {
      for (int64_t r = 0; r < kWidth; ++r) {
        double wanted = 0;
        for (int64_t j = 0; j < kPerToken; ++j) {
          const int64_t at = tokens[t] * kPerToken + j;
          const int64_t expert = routes[static_cast<size_t>(at)];
          if (expert < 0 || expert >= kExperts) continue;
          const double gain = gains[static_cast<size_t>(at)];
          double product = 0;
          for (int64_t c = 0; c < kWidth; ++c) {
            product += static_cast<double>(embed[static_cast<size_t>(tokens[t] * kWidth + c)]) *
                       experts[static_cast<size_t>((expert * kWidth + r) * kWidth + c)];
          }
          wanted += on_input ? gain * gain * product * product : gain * product * product;
        }
        EXPECT_NEAR(found.as<float>()[static_cast<int64_t>(t) * kWidth + r], wanted, 2e-5) << "row " << t << ", " << r;
      }
    }
  }
};

const std::vector<int32_t> kSixteen = {0, 1, 2, 3, 4, 5, 6, 7};

TEST_P(Experts, SomeGetNoRows) { check({0, 2, 2, 0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 2, 2, 0}, kSixteen); }
TEST_P(Experts, OneGetsAllRows) { check({3, 1, 3, 0, 3, 2, 3, 0, 3, 1, 3, 2, 3, 0, 3, 1}, kSixteen); }
TEST_P(Experts, OneIsNamedTwiceByAllRows) { check(std::vector<int32_t>(16, 1), kSixteen); }
TEST_P(Experts, SomeAreNamedTwice) { check({0, 0, 1, 0, 1, 1, 2, 3, 3, 3, 0, 3, 2, 2, 2, 0}, kSixteen); }
TEST_P(Experts, IndicesOfNobodyGiveNothing) { check({-1, 4, 9, 0, 1, -7, 2, 3, 4, 4, 0, 1, 2, 3, 1, 0}, kSixteen); }
TEST_P(Experts, NoTokensNoRows) { check(std::vector<int32_t>(16, 1), {}); }
TEST_P(Experts, OneToken) { check(std::vector<int32_t>(16, 2), {5}); }

INSTANTIATE_TEST_SUITE_P(Backends, Experts,
                         testing::Combine(testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu),
                                          testing::Values("output", "input")));

}  // namespace
}  // namespace firstlight::plans
