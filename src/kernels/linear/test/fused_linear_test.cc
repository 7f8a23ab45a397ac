// SPDX-License-Identifier: Apache-2.0
// fused_linear through its kernel bodies: norm, several weights of different types, bias, epilogue, extras.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/linear/test/weights.h"
#include "ops/op.h"

namespace firstlight::kernels {
namespace {

using catalog::ComputeMode;
using tensor::DType;
using tensor::Layout;
using tensor::Type;

struct Weight {
  DType type;
  int64_t rows;
  bool biased = false;
};

struct Setup {
  std::vector<Weight> weights;
  int64_t columns = 64;
  std::string norm = "none";
  bool norm_weighted = false;
  double norm_offset = 0;
  std::vector<std::string> epilogue;
  std::vector<bool> extra_per_token;
};

// The operands of a fused_linear, and what it should give in float64.
class Fused {
 public:
  Fused(const Setup& setup, int64_t tokens, std::mt19937& rng, ThreadPool& pool) : setup_(setup), tokens_(tokens) {
    set_attributes();
    add(values(tokens * setup.columns, rng), {tokens, setup.columns});
    if (setup.norm_weighted) add(values(setup.columns, rng), {setup.columns});
    for (const Weight& w : setup.weights) {
      stored_.push_back(random_weights(w.type, w.rows * setup.columns, rng));
      decoded_.push_back(decoded(w.type, stored_.back(), w.rows * setup.columns));
      packed_.push_back(packed(w.type, stored_.back(), 1, w.rows, setup.columns, pool));
      views_.push_back(view_of(packed_.back().data, w.type, {w.rows, setup.columns}, Layout::kPackedRows));
    }
    for (const Weight& w : setup.weights) {
      if (w.biased) add(values(w.rows, rng), {w.rows});
    }
    for (bool per_token : setup.extra_per_token) {
      const int64_t rows = setup.weights[0].rows;
      per_token ? add(values(tokens * rows, rng), {tokens, rows}) : add(values(rows, rng), {rows});
    }
  }

  std::vector<std::vector<float>> run(const KernelBody& body, ComputeMode mode, ThreadPool& pool) const {
    std::vector<Type> types;
    for (const tensor::View& view : views_) {
      Type type = Type::tensor(view.dtype, {});
      type.layout = view.layout;
      for (int i = 0; i < view.rank; ++i) type.shape.push_back(view.dim(i));
      types.push_back(type);
    }
    const catalog::Signature signature{ops::OpKind::kFusedLinear, types, {}, attributes_, mode};
    const auto prepared = body.prepare({signature, nullptr}).value();
    std::vector<std::vector<float>> results;
    std::vector<tensor::View> outputs;
    const size_t count = setup_.epilogue.empty() ? setup_.weights.size() : setup_.epilogue.size();
    for (size_t i = 0; i < count; ++i) {
      const int64_t rows = setup_.weights[setup_.epilogue.empty() ? i : 0].rows;
      results.emplace_back(static_cast<size_t>(tokens_ * rows), std::nanf(""));
      outputs.push_back(view_of(results.back().data(), DType::kF32, {tokens_, rows}));
    }
    AlignedBytes workspace(body.workspace_bytes(signature, {}, pool.num_threads()));
    const KernelCall call{.prepared = prepared.get(),
                          .inputs = views_,
                          .outputs = outputs,
                          .workspace = {workspace.data, workspace.storage.size()}};
    pool.run([&](Worker& worker) { body.run(call, worker); });
    return results;
  }

  // In float64, from the decoded weights.
  std::vector<std::vector<double>> exact() const {
    std::vector<double> h = normalised();
    std::vector<std::vector<double>> products;
    size_t next = 1 + (setup_.norm_weighted ? 1 : 0) + setup_.weights.size();
    for (size_t i = 0; i < setup_.weights.size(); ++i) {
      const Weight& w = setup_.weights[i];
      const float* bias = w.biased ? views_[next++].as<const float>() : nullptr;
      std::vector<double> product;
      for (int64_t t = 0; t < tokens_; ++t) {
        for (int64_t r = 0; r < w.rows; ++r) {
          double sum = bias != nullptr ? bias[r] : 0;
          for (int64_t k = 0; k < setup_.columns; ++k)
            sum += h[t * setup_.columns + k] * decoded_[i][r * setup_.columns + k];
          product.push_back(sum);
        }
      }
      products.push_back(std::move(product));
    }
    return setup_.epilogue.empty() ? products : formulas(products, next);
  }

 private:
  static std::vector<float> values(int64_t count, std::mt19937& rng) {
    std::normal_distribution<float> normal;
    std::vector<float> out(static_cast<size_t>(count));
    for (float& value : out) value = normal(rng);
    return out;
  }
  void add(std::vector<float> data, std::initializer_list<int64_t> dims) {
    floats_.push_back(std::move(data));
    views_.push_back(view_of(floats_.back().data(), DType::kF32, dims));
  }
  void set_attributes() {
    std::vector<int64_t> bias;
    for (const Weight& w : setup_.weights) bias.push_back(w.biased ? 1 : 0);
    std::vector<ops::Expression> epilogue;
    for (const std::string& text : setup_.epilogue) epilogue.push_back(ops::Expression::parse(text).value());
    attributes_.set("num_weights", static_cast<int64_t>(setup_.weights.size()));
    attributes_.set("norm", setup_.norm);
    attributes_.set("norm_eps", 1e-5);
    attributes_.set("norm_offset", setup_.norm_offset);
    attributes_.set("norm_weighted", setup_.norm_weighted);
    attributes_.set("bias", bias);
    attributes_.set("num_extras", static_cast<int64_t>(setup_.extra_per_token.size()));
    attributes_.set("epilogue", epilogue);
  }
  std::vector<double> normalised() const {
    const auto* x = views_[0].as<const float>();
    std::vector<double> h(x, x + tokens_ * setup_.columns);
    if (setup_.norm == "none") return h;
    for (int64_t t = 0; t < tokens_; ++t) {
      double squares = 0;
      for (int64_t k = 0; k < setup_.columns; ++k) squares += h[t * setup_.columns + k] * h[t * setup_.columns + k];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(setup_.columns) + 1e-5);
      for (int64_t k = 0; k < setup_.columns; ++k) {
        const double weight = setup_.norm_weighted ? static_cast<double>(views_[1].as<const float>()[k]) : 1.0;
        h[t * setup_.columns + k] *= scale * (weight + setup_.norm_offset);
      }
    }
    return h;
  }
  std::vector<std::vector<double>> formulas(const std::vector<std::vector<double>>& products,
                                            size_t first_extra) const {
    std::vector<std::vector<double>> results;
    const int64_t rows = setup_.weights[0].rows;
    for (const std::string& text : setup_.epilogue) {
      const ops::Expression expression = ops::Expression::parse(text).value();
      std::vector<double> result;
      for (int64_t i = 0; i < tokens_ * rows; ++i) {
        std::vector<double> inputs;
        for (const auto& product : products) inputs.push_back(product[i]);
        for (size_t e = 0; e < setup_.extra_per_token.size(); ++e) {
          inputs.push_back(views_[first_extra + e].as<const float>()[setup_.extra_per_token[e] ? i : i % rows]);
        }
        result.push_back(expression.evaluate(inputs));
      }
      results.push_back(std::move(result));
    }
    return results;
  }

  Setup setup_;
  int64_t tokens_;
  ops::Attributes attributes_;
  std::vector<std::vector<std::byte>> stored_;
  std::vector<std::vector<float>> decoded_;
  std::vector<AlignedBytes> packed_;
  std::vector<std::vector<float>> floats_;
  std::vector<tensor::View> views_;
};

std::vector<const KernelBody*> bodies() {
  std::vector<const KernelBody*> all = {&cpu_fused_linear_bodies()[0]};
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16")) {
    all.push_back(&cpu_fused_linear_bodies()[1]);
  }
  return all;
}

// Relative to the largest value: 1e-5 in f32 mode, where a wrong formula or operand would show at once; the sums' own
// bounds are matmul_test's. In int8 and bf16 mode the rounding of the operands dominates.
void check(const Setup& setup) {
  std::mt19937 rng(23);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  for (int64_t tokens : {1, 3, 20, 170, 210}) {  // alone, shared tiles in one group and in two, shared tokens
    const Fused fused(setup, tokens, rng, pool);
    const auto exact = fused.exact();
    for (const KernelBody* body : bodies()) {
      for (const auto& [mode, tolerance] : {std::pair{ComputeMode::kF32, 1e-5}, std::pair{ComputeMode::kBf16, 2e-2},
                                            std::pair{ComputeMode::kInt8, 4e-2}}) {
        const auto results = fused.run(*body, mode, pool);
        ASSERT_EQ(results.size(), exact.size());
        for (size_t i = 0; i < results.size(); ++i) {
          double largest = 0;
          for (double value : exact[i]) largest = std::max(largest, std::abs(value));
          for (size_t j = 0; j < exact[i].size(); ++j) {
            ASSERT_NEAR(results[i][j], exact[i][j], tolerance * largest)
                << body->symbol << " mode " << static_cast<int>(mode) << " tokens " << tokens << " result " << i
                << " at " << j;
          }
        }
      }
    }
  }
}

TEST(FusedLinear, QueryKeyValueOfDifferentTypesWithBiasAndNorm) {
  check({.weights = {{DType::kQ4_1, 96, true}, {DType::kQ8_0, 32, false}, {DType::kF16, 40, true}},
         .norm = "rms",
         .norm_weighted = true});
}

TEST(FusedLinear, GatedUnitWithOffsetNorm) {
  check({.weights = {{DType::kQ4_1, 100}, {DType::kQ4_1, 100}},
         .norm = "rms",
         .norm_weighted = true,
         .norm_offset = 1,
         .epilogue = {"mul(mul(x0, sigmoid(x0)), x1)"}});
}

TEST(FusedLinear, GatedUnitOfMixedTypes) {
  check({.weights = {{DType::kQ4_0, 50, true}, {DType::kBF16, 50, true}},
         .norm = "rms",
         .epilogue = {"mul(mul(x0, sigmoid(x0)), x1)", "sub(x0, x1)"}});
}

TEST(FusedLinear, ResidualAndRowExtras) {
  check({.weights = {{DType::kF32, 37, true}}, .epilogue = {"add(mul(x0, x2), x1)"}, .extra_per_token = {true, false}});
}

TEST(FusedLinear, UnweightedNormAlone) { check({.weights = {{DType::kF32, 16}}, .columns = 50, .norm = "rms"}); }

TEST(FusedLinear, SmallOperandsOfOtherTypesAreDecoded) {
  const std::vector<uint16_t> halves = {tensor::f32_to_bf16(1.5f), tensor::f32_to_bf16(-2.0f)};
  std::vector<float> space(2);
  const float* floats = floats_of(view_of(halves.data(), DType::kBF16, {2}), space);
  EXPECT_EQ(floats[0], 1.5f);
  EXPECT_EQ(floats[1], -2.0f);
  EXPECT_EQ(floats_of(view_of(space.data(), DType::kF32, {2}), {}), space.data());
}

}  // namespace
}  // namespace firstlight::kernels
