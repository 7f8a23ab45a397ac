// SPDX-License-Identifier: Apache-2.0
// batched_linear and linear through their kernel bodies.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/linear/test/weights.h"
#include "ops/op.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;
using tensor::Layout;
using tensor::Type;

std::vector<float> run(const KernelBody& body, ops::OpKind op, std::span<const tensor::View> inputs,
                       tensor::View output, ThreadPool& pool) {
  std::vector<Type> types;
  for (const tensor::View& view : inputs) {
    Type type = Type::tensor(view.dtype, {});
    type.layout = view.layout;
    for (int i = 0; i < view.rank; ++i) type.shape.push_back(view.dim(i));
    types.push_back(type);
  }
  const ops::Attributes attributes;
  const catalog::Signature signature{op, types, {}, attributes, catalog::ComputeMode::kF32};
  const auto prepared = body.prepare({signature, nullptr}).value();
  std::vector<float> result(static_cast<size_t>(output.num_elements()), std::nanf(""));
  output.data = result.data();
  AlignedBytes workspace(body.workspace_bytes == nullptr ? 0 : body.workspace_bytes(signature, {}, pool.num_threads()));
  const KernelCall call{.prepared = prepared.get(),
                        .inputs = inputs,
                        .outputs = {&output, 1},
                        .workspace = {workspace.data, workspace.storage.size()}};
  pool.run([&](Worker& worker) { body.run(call, worker); });
  return result;
}

std::vector<float> random_rows(int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(rng);
  return values;
}

size_t num_forms() { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") ? 2 : 1; }

TEST(BatchedLinear, EachHeadHasItsOwnMatrix) {
  std::mt19937 rng(29);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  for (DType type : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
    const int64_t heads = 3;
    const int64_t columns = 64;
    const int64_t rows = 20;
    const auto stored = random_weights(type, heads * rows * columns, rng);
    const auto w = decoded(type, stored, heads * rows * columns);
    const AlignedBytes weights = packed(type, stored, heads, rows, columns, pool);
    for (int64_t tokens : {1, 6, 130}) {
      const auto x = random_rows(tokens * heads * columns, rng);
      for (Layout layout : {Layout::kPackedRows, Layout::kRowMajor}) {
        const void* memory = layout == Layout::kPackedRows ? weights.data : stored.data();
        const tensor::View inputs[] = {view_of(x.data(), DType::kF32, {tokens, heads, columns}),
                                       view_of(memory, type, {heads, rows, columns}, layout)};
        for (size_t form = 0; form < num_forms(); ++form) {
          const auto y = run(cpu_batched_linear_bodies()[form], ops::OpKind::kBatchedLinear, inputs,
                             view_of(nullptr, DType::kF32, {tokens, heads, rows}), pool);
          for (int64_t i = 0; i < tokens * heads; ++i) {
            for (int64_t r = 0; r < rows; ++r) {
              double sum = 0;
              for (int64_t k = 0; k < columns; ++k) {
                sum += static_cast<double>(x[i * columns + k]) * w[(i % heads * rows + r) * columns + k];
              }
              ASSERT_NEAR(y[i * rows + r], sum, 1e-4) << tensor::dtype_name(type) << " row " << i << " " << r;
            }
          }
        }
      }
    }
  }
}

TEST(Linear, LeadingAxesAndBias) {
  std::mt19937 rng(31);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  const auto stored = random_weights(DType::kQ4_0, 18 * 32, rng);
  const auto w = decoded(DType::kQ4_0, stored, 18 * 32);
  const AlignedBytes weights = packed(DType::kQ4_0, stored, 1, 18, 32, pool);
  const auto x = random_rows(3 * 5 * 32, rng);
  const auto bias = random_rows(18, rng);
  const tensor::View inputs[] = {view_of(x.data(), DType::kF32, {3, 5, 32}),
                                 view_of(weights.data, DType::kQ4_0, {18, 32}, Layout::kPackedRows),
                                 view_of(bias.data(), DType::kF32, {18})};
  for (size_t form = 0; form < num_forms(); ++form) {
    const auto y =
        run(cpu_linear_bodies()[form], ops::OpKind::kLinear, inputs, view_of(nullptr, DType::kF32, {3, 5, 18}), pool);
    for (int64_t t = 0; t < 15; ++t) {
      for (int64_t r = 0; r < 18; ++r) {
        double sum = bias[r];
        for (int64_t k = 0; k < 32; ++k) sum += static_cast<double>(x[t * 32 + k]) * w[r * 32 + k];
        ASSERT_NEAR(y[t * 18 + r], sum, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace firstlight::kernels
