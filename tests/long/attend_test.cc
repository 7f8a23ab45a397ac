// SPDX-License-Identifier: Apache-2.0
// attend over 131,072 keys: 64 sampled query rows against the formula in float64 over every visible key. Logits that
// climb and fall with the position, one key that outweighs all others, long runs of equal scores, positions around
// multiples of the windows.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel_run.h"
#include "paged_log.h"
#include "tensor/codec.h"

namespace firstlight::long_tests {
namespace {

constexpr int64_t kTokens = 131072;
constexpr int64_t kWindow = 4096;

enum class Course : uint8_t { kClimbing, kFalling, kEarly, kLate, kEqual, kWaves };

struct Variant {
  std::string name;
  Course course;
  DType dtype = DType::kF32;
  int64_t heads = 4, kv_heads = 2, key_width = 32, value_width = 32;
  bool is_latent = false;  // values are the first columns of the keys
  int64_t window = 0, chunk = 0;
  double cap = 0;
  bool has_sinks = false;
  double height = 40;  // of the logits' course
  double noise = 0.5;
};

// What the logits of a key are about.
double level(Course course, int64_t row, double height) {
  const double place = static_cast<double>(row) / static_cast<double>(kTokens);
  switch (course) {
    case Course::kClimbing:
      return height * place;
    case Course::kFalling:
      return height * (1 - place);
    case Course::kEarly:  // as much as all the others together
      return row == 0 ? std::log(static_cast<double>(kTokens)) : 0;
    case Course::kLate:
      return row % kWindow == kWindow - 1 ? 0.5 * height : 0;
    case Course::kEqual:
      return 1;
    case Course::kWaves:
      return height * std::sin(static_cast<double>(row) / 1000);
  }
  FL_CHECK(false);
}

PagedLog make_log(const Variant& v) {
  const int64_t page_rows = 64;
  std::vector<ops::StateComponent> parts = {{"k", v.kv_heads, v.key_width, v.dtype}};
  if (!v.is_latent) parts.push_back({"v", v.kv_heads, v.value_width, v.dtype});
  return {std::move(parts), kTokens, page_rows};
}

void fill(PagedLog& log, const Variant& v, Data& data) {
  std::vector<float> key(static_cast<size_t>(v.key_width)), value(static_cast<size_t>(v.value_width));
  // Noise out of a table: what matters is the course.
  std::vector<float> table(1 << 15);
  for (float& x : table) x = static_cast<float>(data.normal());
  for (int64_t row = 0; row < kTokens; ++row) {
    for (int64_t h = 0; h < v.kv_heads; ++h) {
      const bool is_equal = v.course == Course::kEqual;
      size_t at = data.below(1 << 14);
      for (float& x : key) x = is_equal ? 0.25f : static_cast<float>(v.noise) * table[at++];
      key.back() = static_cast<float>(level(v.course, row, v.height));
      log.set(0, row, h, key);
      if (v.is_latent) continue;
      for (float& x : value) x = is_equal ? 1.1f : 1.0f + 0.5f * table[at++];
      log.set(1, row, h, value);
    }
  }
}

// 16 places of 4 queries: the end, both sides of multiples of the window, powers of two.
std::vector<plan::SequenceSpan> sampled_spans() {
  std::vector<plan::SequenceSpan> spans;
  for (const int64_t last : {4L, 60L, 66L, 1026L, 4096L, 4098L, 8193L, 16384L, 32769L, 40960L, 65536L, 65538L, 98304L,
                             114690L, 126977L, 131072L}) {
    spans.push_back({static_cast<int64_t>(spans.size()) * 4, 4, last - 4, kTokens});
  }
  return spans;
}

// Places of rows, [from, to), that a query at `position` sees: all that a causal mask, a window and chunks leave.
bool sees(const Variant& v, int64_t position, int64_t row) {
  if (row > position) return false;
  if (v.window > 0 && row + v.window <= position) return false;
  return v.chunk == 0 || row / v.chunk == position / v.chunk;
}

struct Judged {
  std::vector<double> y;
  double bound = 0;
};

// docs/numerics.md, "Long rows of keys".
double bound_of(const Variant& v, double largest_sum, double rise, double sink, double largest_value) {
  const double lanes = static_cast<double>(v.key_width) / 8;
  const double score = (lanes + 10) * kUnit * largest_sum + 10 * kUnit * v.cap + kUnit * sink;
  return (2 * (score + 9 * kUnit * rise) + 120 * kUnit) * largest_value;
}

Judged judge(const Variant& v, const PagedLog& log, const float* q, int64_t position, int64_t head, double scale,
             double sink) {
  const int64_t kv_head = head / (v.heads / v.kv_heads);
  const size_t values = v.is_latent ? 0 : 1;
  std::vector<double> scores;
  std::vector<int64_t> rows;
  double largest_sum = 0, top = sink, low = HUGE_VAL, largest_value = 0;
  for (int64_t row = 0; row <= position; ++row) {
    if (!sees(v, position, row)) continue;
    const float* k = log.row(0, row, kv_head);
    double dot = 0, sum = 0;
    for (int64_t i = 0; i < v.key_width; ++i) {
      const double product = static_cast<double>(q[i]) * static_cast<double>(k[i]);
      dot += product;
      sum += std::fabs(product);
    }
    double score = dot * scale;
    if (v.cap > 0) score = v.cap * std::tanh(score / v.cap);
    largest_sum = std::max(largest_sum, sum * scale);
    top = std::max(top, score);
    low = std::min(low, score);
    scores.push_back(score);
    rows.push_back(row);
  }
  Judged out;
  out.y.assign(static_cast<size_t>(v.value_width), 0.0);
  double total = std::isfinite(sink) ? std::exp(sink - top) : 0;
  for (size_t j = 0; j < rows.size(); ++j) {
    const double weight = std::exp(scores[j] - top);
    total += weight;
    const float* value = log.row(values, rows[j], kv_head);
    for (int64_t i = 0; i < v.value_width; ++i) {
      out.y[static_cast<size_t>(i)] += weight * static_cast<double>(value[i]);
      largest_value = std::max(largest_value, std::fabs(static_cast<double>(value[i])));
    }
  }
  for (double& y : out.y) y /= total;
  out.bound = bound_of(v, largest_sum, top - low, std::isfinite(sink) ? std::fabs(sink) : 0, largest_value);
  return out;
}

// Queries that read the course from the last column of the keys.
Tensor queries(const Variant& v, int64_t tokens, double scale, Data& data) {
  Tensor q = data.floats(DType::kF32, {tokens, v.heads, v.key_width});
  auto* values = reinterpret_cast<float*>(q.data.data());
  for (int64_t i = v.key_width - 1; i < tokens * v.heads * v.key_width; i += v.key_width) {
    values[i] = static_cast<float>(1 / scale);
  }
  return q;
}

ops::Attributes attributes_of(const Variant& v, double scale) {
  std::string text = "{scale = " + ops::exact_decimal(scale) + ", key = \"k\", value = \"" + (v.is_latent ? "k" : "v") +
                     "\", value_width = " + std::to_string(v.value_width);
  if (v.window > 0) text += ", window = " + std::to_string(v.window);
  if (v.chunk > 0) text += ", chunk = " + std::to_string(v.chunk);
  const std::string cap = ops::exact_decimal(v.cap);
  if (v.cap > 0) text += ", score = mul(" + cap + ", tanh(div(x0, " + cap + ")))";
  return conformance::attributes(text + "}");
}

class AttendLong : public testing::TestWithParam<Variant> {};

TEST_P(AttendLong, SampledRowsAreWhatTheFormulaSays) {
  const Variant& v = GetParam();
  Data data(7);
  const double scale = 1 / std::sqrt(static_cast<double>(v.key_width));
  PagedLog log = make_log(v);
  fill(log, v, data);
  KernelRun call{ops::OpKind::kAttend, attributes_of(v, scale), {}, {&log.declaration()}, {}, sampled_spans()};
  const auto tokens = static_cast<int64_t>(call.spans.size()) * 4;
  call.operands = {queries(v, tokens, scale, data), Data::state()};
  if (v.has_sinks) call.operands.push_back(data.floats(DType::kBF16, {v.heads}, 4));
  call.states = {&log.view(call.spans.size())};
  const auto* q = reinterpret_cast<const float*>(call.operands[0].data.data());
  const std::vector<double> sinks = v.has_sinks ? call.operands[2].values() : std::vector<double>{};

  std::vector<Judged> wanted;
  for (const plan::SequenceSpan& span : call.spans) {
    for (int64_t i = 0; i < 4 * v.heads; ++i) {
      const int64_t token = i / v.heads, head = i % v.heads;
      const float* own = q + ((span.first_row + token) * v.heads + head) * v.key_width;
      wanted.push_back(judge(v, log, own, span.start_position + token, head, scale,
                             v.has_sinks ? sinks[static_cast<size_t>(head)] : -HUGE_VAL));
    }
  }
  const auto width = static_cast<size_t>(v.value_width);
  for (const catalog::KernelRow* row : host_rows(call, is_full())) {
    for (const int threads : {1, 4}) {  // few tasks for many workers: keys are split
      ThreadPool pool({threads, false, 20});
      Tally tally;
      if (threads == 1) {
        const auto y = run(call, *row, pool)[0];
        for (size_t i = 0; i < y.size(); ++i) {
          tally.add(static_cast<double>(y[i]), wanted[i / width].y[i % width], wanted[i / width].bound);
        }
        tally.conclude("attend " + v.name, place_of(*row));
        continue;
      }
      KernelRun last = call;  // the last row alone, as in decoding
      last.spans = {{0, 1, kTokens - 1, kTokens}};
      last.states = {&log.view(1)};
      const auto bytes = static_cast<size_t>(v.heads * v.key_width) * sizeof(float);
      last.operands[0] = Data::from({1, v.heads, v.key_width},
                                    {q + (tokens - 1) * v.heads * v.key_width, q + tokens * v.heads * v.key_width});
      FL_CHECK(last.operands[0].data.size() == bytes);
      const auto y = run(last, *row, pool)[0];
      const size_t first = wanted.size() - static_cast<size_t>(v.heads);
      for (size_t i = 0; i < y.size(); ++i) {
        tally.add(static_cast<double>(y[i]), wanted[first + i / width].y[i % width], wanted[first + i / width].bound);
      }
      tally.conclude("attend " + v.name + ", one row in parts", place_of(*row));
      call.states = {&log.view(call.spans.size())};
    }
  }
}

std::vector<Variant> variants() {
  const DType f32 = DType::kF32, f16 = DType::kF16, bf16 = DType::kBF16;
  std::vector<Variant> all = {
      {"causal, climbing", Course::kClimbing, f32},
      {"causal, falling", Course::kFalling, bf16},
      {"causal, first key as heavy as the rest", Course::kEarly, f16},
      {"causal, equal scores and values", Course::kEqual, f32},
      {"causal, heavy keys before multiples of the window", Course::kLate, f16},
      {"window, waves", Course::kWaves, bf16},
      {"window, heavy keys before its multiples", Course::kLate, f32},
      {"chunks, climbing", Course::kClimbing, f16},
      {"sinks and window, equal", Course::kEqual, bf16},
      {"soft cap, climbing to 400", Course::kClimbing, f32},
      {"soft cap and sinks, waves", Course::kWaves, f16},
      {"latent, climbing", Course::kClimbing, bf16},
      {"one head of keys, steep", Course::kClimbing, f32},
  };
  for (const size_t i : {5u, 6u, 8u}) all[i].window = kWindow;
  all[7].chunk = 8192;
  all[8].has_sinks = all[10].has_sinks = true;
  all[9].cap = 30;
  all[9].height = 400;
  all[10].cap = 50;
  all[11].is_latent = true;
  all[11].kv_heads = 1;
  all[11].key_width = 80;
  all[11].value_width = 64;
  all[12].kv_heads = 1;
  all[12].height = 2000;
  return all;
}

std::vector<Variant> chosen_variants() {
  std::vector<Variant> all = variants();
  if (!is_full()) return all;
  std::vector<Variant> more;
  for (const Variant& v : all) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const int64_t width : {v.key_width, v.key_width * 2}) {
        Variant other = v;
        other.dtype = dtype;
        other.key_width = width;
        other.name += ", " + std::string(tensor::dtype_name(dtype)) + ", keys of " + std::to_string(width);
        more.push_back(other);
      }
    }
  }
  return more;
}

std::string name_of(const testing::TestParamInfo<Variant>& info) {
  std::string name = std::to_string(info.index) + "_" + info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Variants, AttendLong, testing::ValuesIn(chosen_variants()), name_of);

}  // namespace
}  // namespace firstlight::long_tests
