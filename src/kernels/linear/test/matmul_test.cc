// SPDX-License-Identifier: Apache-2.0
// Every stored type, compute mode and instruction set against float64, within the bounds of docs/numerics.md.
#include "kernels/linear/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/linear/test/weights.h"

namespace firstlight::kernels {
namespace {

using catalog::ComputeMode;
using tensor::DType;
using tensor::Layout;

struct FormCase {
  const char* name;
  const Form& (*form)();
  bool available;
};

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}
std::vector<FormCase> forms() {
  std::vector<FormCase> cases = {{"avx2", form_avx2, true}};
  if (has_avx512()) cases.push_back({"avx512", form_avx512, true});
  return cases;
}

constexpr double kUnit = 0x1p-24;     // unit roundoff of float32
constexpr double kUnitBf16 = 0x1p-8;  // of bfloat16

// What one element of the product may be off by (docs/numerics.md).
double bound(ProductPath path, DType type, const float* w, const float* x, int64_t columns) {
  double products = 0;
  double quantised = 0;
  double spread = 0;
  for (int64_t start = 0; start < columns; start += 32) {
    double max_x = 0;
    double max_w = 0;
    double sum_w = 0;
    const int64_t stop = std::min(start + 32, columns);
    for (int64_t k = start; k < stop; ++k) {
      products += std::abs(static_cast<double>(w[k]) * x[k]);
      max_x = std::max(max_x, std::abs(static_cast<double>(x[k])));
      max_w = std::max(max_w, std::abs(static_cast<double>(w[k])));
      sum_w += std::abs(static_cast<double>(w[k]));
    }
    quantised += max_x / 127 * (0.5 + 127 * 4 * kUnit) * sum_w;
    spread += 32 * 4 * max_w * max_x;  // code * scale and minimum, each at most 2 max |w| in these weights
  }
  const double sums = static_cast<double>(columns + 4) * kUnit * 1.01;
  switch (path) {
    case ProductPath::kF32:
      return sums * products;
    case ProductPath::kBf16: {
      const bool exact = type == DType::kBF16 || type == DType::kF8E4M3 || type == DType::kF8E5M2;
      const double rounding = exact ? kUnitBf16 : 2 * kUnitBf16 + kUnitBf16 * kUnitBf16;
      return (rounding + sums * (1 + rounding)) * products + 1e-30;
    }
    case ProductPath::kInt8:
      return quantised + (static_cast<double>(columns) / 32 * 2 + 8) * kUnit * spread;
  }
  return 0;
}

struct Problem {
  DType type;
  int64_t rows, columns, tokens;
  std::vector<std::byte> stored;
  std::vector<float> w, x;
  std::vector<double> exact;

  Problem(DType dtype, int64_t r, int64_t k, int64_t t, std::mt19937& rng)
      : type(dtype),
        rows(r),
        columns(k),
        tokens(t),
        stored(random_weights(dtype, r * k, rng)),
        w(decoded(dtype, stored, r * k)) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < t * k; ++i) x.push_back(normal(rng) * (i % 37 == 0 ? 8.0f : 1.0f));
    for (int64_t i = 0; i < t; ++i) {
      for (int64_t j = 0; j < r; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < k; ++c) sum += static_cast<double>(x[i * k + c]) * w[j * k + c];
        exact.push_back(sum);
      }
    }
  }
};

std::vector<float> multiply(const Form& form, const Problem& p, const std::byte* weights, Layout layout,
                            ProductPath path, ThreadPool& pool) {
  std::vector<float> out(static_cast<size_t>(p.rows * p.tokens), std::numeric_limits<float>::quiet_NaN());
  const WeightMatrix weight{p.type, layout, path, weights, p.rows, nullptr};
  const OutputRows output{out.data(), p.rows};
  const MatmulJob job{.x = p.x.data(),
                      .tokens = p.tokens,
                      .columns = p.columns,
                      .x_stride = p.columns,
                      .weights = {&weight, 1},
                      .outputs = {&output, 1}};
  AlignedBytes workspace(matmul_workspace_bytes({&path, 1}, p.tokens, p.columns));
  pool.run([&](Worker& worker) { run_matmul(form, job, worker, {workspace.data, workspace.storage.size()}); });
  return out;
}

void expect_within_bound(const Problem& p, ProductPath path, const std::vector<float>& out) {
  for (int64_t t = 0; t < p.tokens; ++t) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const double limit = bound(path, p.type, &p.w[r * p.columns], &p.x[t * p.columns], p.columns);
      const double error = std::abs(out[t * p.rows + r] - p.exact[t * p.rows + r]);
      ASSERT_LE(error, limit) << "token " << t << " row " << r << ": " << out[t * p.rows + r] << " for "
                              << p.exact[t * p.rows + r];
    }
  }
}

class MatmulTest : public testing::TestWithParam<DType> {
 protected:
  // Column counts: block formats take whole blocks, plain types any.
  std::vector<int64_t> column_counts() const {
    const int64_t block = tensor::dtype_info(GetParam()).block_elements;
    if (block == 256) return {256, 768};
    if (block == 64) return {64, 192, 320};
    if (block == 32) return {32, 96, 288};
    return {1, 33, 257, 290};
  }
};

TEST_P(MatmulTest, EveryModeAndFormWithinItsBound) {
  std::mt19937 rng(7);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  for (int64_t columns : column_counts()) {
    for (int64_t rows : {1, 15, 17, 33, 80}) {
      for (int64_t tokens : {0, 1, 2, 5, 13, 16, 17, 40}) {
        const Problem p(GetParam(), rows, columns, tokens, rng);
        const AlignedBytes weights = packed(p.type, p.stored, 1, rows, columns, pool);
        for (const FormCase& form : forms()) {
          for (ProductPath path : {ProductPath::kF32, ProductPath::kBf16, ProductPath::kInt8}) {
            if (path == ProductPath::kInt8 && form.form().int8_kernel(p.type) == nullptr) continue;
            SCOPED_TRACE(testing::Message() << form.name << " path " << static_cast<int>(path) << " [" << rows << ", "
                                            << columns << "] x " << tokens);
            expect_within_bound(p, path, multiply(form.form(), p, weights.data, Layout::kPackedRows, path, pool));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Rows of the identity as activations read the packed weights back: they must be the decoded ones, bit for bit.
TEST_P(MatmulTest, PackedWeightsDecodeToTheStoredValues) {
  std::mt19937 rng(11);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  for (int64_t columns : column_counts()) {
    Problem p(GetParam(), 35, columns, columns, rng);
    std::fill(p.x.begin(), p.x.end(), 0.0f);
    for (int64_t k = 0; k < columns; ++k) p.x[k * columns + k] = 1;
    const AlignedBytes weights = packed(p.type, p.stored, 1, p.rows, columns, pool);
    for (const FormCase& form : forms()) {
      const std::vector<float> out =
          multiply(form.form(), p, weights.data, Layout::kPackedRows, ProductPath::kF32, pool);
      for (int64_t k = 0; k < columns; ++k) {
        for (int64_t r = 0; r < p.rows; ++r) ASSERT_EQ(out[k * p.rows + r], p.w[r * columns + k]) << form.name;
      }
    }
  }
}

TEST_P(MatmulTest, RowMajorWeightsGiveTheSameBits) {
  std::mt19937 rng(13);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  for (int64_t tokens : {1, 9, 100}) {
    const Problem p(GetParam(), 49, column_counts().back(), tokens, rng);
    const AlignedBytes weights = packed(p.type, p.stored, 1, p.rows, p.columns, pool);
    for (const FormCase& form : forms()) {
      for (ComputeMode mode : {ComputeMode::kF32, ComputeMode::kBf16, ComputeMode::kInt8}) {
        const ProductPath path = product_path(mode, p.type);
        EXPECT_EQ(multiply(form.form(), p, weights.data, Layout::kPackedRows, path, pool),
                  multiply(form.form(), p, p.stored.data(), Layout::kRowMajor, path, pool));
      }
    }
  }
}

// A token alone and among others, in every panel width: the same bits.
TEST_P(MatmulTest, TokensDoNotInfluenceEachOther) {
  std::mt19937 rng(37);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  const Problem all(GetParam(), 33, column_counts().back(), 23, rng);
  const AlignedBytes weights = packed(all.type, all.stored, 1, all.rows, all.columns, pool);
  for (const FormCase& form : forms()) {
    for (ComputeMode mode : {ComputeMode::kF32, ComputeMode::kBf16, ComputeMode::kInt8}) {
      const ProductPath path = product_path(mode, all.type);
      const auto together = multiply(form.form(), all, weights.data, Layout::kPackedRows, path, pool);
      for (int64_t tokens : {1, 2, 3, 7, 12}) {
        Problem some = all;
        some.tokens = tokens;
        const auto apart = multiply(form.form(), some, weights.data, Layout::kPackedRows, path, pool);
        EXPECT_TRUE(std::equal(apart.begin(), apart.end(), together.begin())) << form.name << " " << tokens;
      }
    }
  }
}

// Results do not depend on how many workers share the tiles.
TEST_P(MatmulTest, ThreadCountChangesNothing) {
  std::mt19937 rng(17);
  ThreadPool one(ThreadPool::Options{.num_threads = 1});
  ThreadPool three(ThreadPool::Options{.num_threads = 3});
  for (int64_t tokens : {1, 4, 30, 200}) {
    const Problem p(GetParam(), 100, column_counts().back(), tokens, rng);
    const AlignedBytes weights = packed(p.type, p.stored, 1, p.rows, p.columns, one);
    for (const FormCase& form : forms()) {
      const ProductPath path = product_path(ComputeMode::kInt8, p.type);
      EXPECT_EQ(multiply(form.form(), p, weights.data, Layout::kPackedRows, path, one),
                multiply(form.form(), p, weights.data, Layout::kPackedRows, path, three));
    }
  }
}

std::string type_name(const testing::TestParamInfo<DType>& param) {
  return std::string(tensor::dtype_name(param.param));
}
INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, testing::ValuesIn(kPackedTypes), type_name);

TEST(Matmul, NotFiniteActivationsStayVisibleInInt8Mode) {
  std::mt19937 rng(19);
  ThreadPool pool(ThreadPool::Options{.num_threads = 1});
  Problem p(DType::kQ4_1, 20, 64, 2, rng);
  p.x[70] = std::numeric_limits<float>::quiet_NaN();
  const AlignedBytes weights = packed(p.type, p.stored, 1, p.rows, p.columns, pool);
  for (const FormCase& form : forms()) {
    const auto out = multiply(form.form(), p, weights.data, Layout::kPackedRows, ProductPath::kInt8, pool);
    for (int64_t r = 0; r < p.rows; ++r) {
      EXPECT_TRUE(std::isfinite(out[r]));
      EXPECT_TRUE(std::isnan(out[p.rows + r]));
    }
  }
}

// What AVX-512 prepares in several rows at once is what the plain text of the row kernels prepares.
TEST(Matmul, FourRowsAtOnceAreRoundedAsEachAlone) {
  constexpr int64_t kColumns = 160;
  constexpr int64_t kStride = 163;
  std::mt19937 rng(41);
  std::normal_distribution<float> normal;
  std::vector<float> x(4 * kStride);
  for (float& value : x) value = normal(rng);
  const float infinity = std::numeric_limits<float>::infinity();
  std::fill_n(x.begin(), 32, 0.0f);
  std::fill_n(x.begin() + kStride, 32, 1e-37f);
  x[2 * kStride + 7] = std::numeric_limits<float>::quiet_NaN();
  x[2 * kStride + 40] = -infinity;
  x[3 * kStride + 3] = 3e38f;
  x[3 * kStride + 90] = -0.0f;
  for (const FormCase& form : forms()) {
    if (form.form().quantise_four == nullptr) continue;
    constexpr int64_t kTokens = 6;
    AlignedBytes codes[2] = {AlignedBytes(kTokens * kColumns), AlignedBytes(kTokens * kColumns)};
    AlignedBytes blocks[2] = {AlignedBytes(kTokens * kColumns / 2), AlignedBytes(kTokens * kColumns / 2)};
    Int8Rows rows[2];
    for (int i = 0; i < 2; ++i) {
      rows[i] = {reinterpret_cast<int8_t*>(codes[i].data), reinterpret_cast<Int8Block*>(blocks[i].data), kTokens};
    }
    form.form().quantise_four(x.data(), kStride, kColumns, 1, rows[0]);
    for (int64_t t = 0; t < 4; ++t) form.form().quantise_row(x.data() + t * kStride, kColumns, 1 + t, rows[1]);
    EXPECT_EQ(std::memcmp(codes[0].data, codes[1].data, kTokens * kColumns), 0);
    for (int64_t at = 0; at < kTokens * kColumns / 32; ++at) {
      const Int8Block& one = rows[1].blocks[at];
      const Int8Block& four = rows[0].blocks[at];
      EXPECT_TRUE(one.scale == four.scale || (std::isnan(one.scale) && std::isnan(four.scale))) << at;
      EXPECT_TRUE(one.scaled_sum == four.scaled_sum || (std::isnan(one.scaled_sum) && std::isnan(four.scaled_sum)));
      EXPECT_EQ(one.minus_sum, four.minus_sum);
      EXPECT_EQ(one.minus_high, four.minus_high);
    }
  }
}

TEST(Matmul, PanelsOfBfloat16HoldRoundedPairs) {
  constexpr int64_t kColumns = 96;
  constexpr int64_t kStride = 101;
  std::mt19937 rng(43);
  std::normal_distribution<float> normal;
  std::vector<float> x(12 * kStride);
  for (float& value : x) value = normal(rng);
  x[3 * kStride + 5] = 0;
  x[2] = std::numeric_limits<float>::quiet_NaN();
  x[40] = -std::numeric_limits<float>::infinity();
  for (const FormCase& form : forms()) {
    for (int64_t tokens = 1; tokens <= form.form().panel_tokens; ++tokens) {
      const int64_t width = form.form().panel_width(tokens);
      std::vector<uint16_t> panel(static_cast<size_t>(width * kColumns), 0x7777);
      form.form().store_panel_bf16(x.data(), kStride, tokens, kColumns, reinterpret_cast<std::byte*>(panel.data()));
      for (int64_t k = 0; k < kColumns; ++k) {
        for (int64_t t = 0; t < width; ++t) {
          const uint16_t wanted = t < tokens ? tensor::f32_to_bf16(x[t * kStride + k]) : 0;
          ASSERT_EQ(panel[(k / 2 * width + t) * 2 + k % 2], wanted) << form.name << " " << tokens << " " << k;
        }
      }
    }
  }
}

TEST(Matmul, NoColumnsGiveZeros) {
  ThreadPool pool(ThreadPool::Options{.num_threads = 1});
  std::mt19937 rng(47);
  for (const FormCase& form : forms()) {
    for (int64_t tokens : {1, 20}) {
      const Problem p(DType::kF32, 20, 0, tokens, rng);
      const auto out = multiply(form.form(), p, nullptr, Layout::kPackedRows, ProductPath::kF32, pool);
      for (float value : out) EXPECT_EQ(value, 0) << form.name;
    }
  }
}

TEST(Matmul, ModesChooseThePathByStoredType) {
  EXPECT_EQ(product_path(ComputeMode::kF32, DType::kQ4_1), ProductPath::kF32);
  EXPECT_EQ(product_path(ComputeMode::kBf16, DType::kF32), ProductPath::kBf16);
  EXPECT_EQ(product_path(ComputeMode::kInt8, DType::kQ6_K), ProductPath::kInt8);
  EXPECT_EQ(product_path(ComputeMode::kInt8, DType::kBF16), ProductPath::kBf16);
  EXPECT_EQ(product_path(ComputeMode::kInt8, DType::kF16), ProductPath::kF32);
}

}  // namespace
}  // namespace firstlight::kernels
