// SPDX-License-Identifier: Apache-2.0
// attend over 131,072 keys: 64 sampled query rows against the formula in float64 over every visible key. Logits that
// climb and fall with the position, one key that outweighs all others, long runs of equal scores, positions around
// multiples of the windows.
#include <gtest/gtest.h>

#include <cmath>

#include "attend_judge.h"
#include "kernel_run.h"
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
  AttendRules rules = {};
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
  std::vector<ops::StateComponent> parts = {{"k", v.rules.kv_heads, v.rules.key_width, v.dtype}};
  if (!v.rules.is_latent) parts.push_back({"v", v.rules.kv_heads, v.rules.value_width, v.dtype});
  return {std::move(parts), kTokens, page_rows};
}

void fill(PagedLog& log, const Variant& v, Data& data) {
  std::vector<float> key(static_cast<size_t>(v.rules.key_width)), value(static_cast<size_t>(v.rules.value_width));
  // Noise out of a table: what matters is the course.
  std::vector<float> table(1 << 15);
  for (float& x : table) x = static_cast<float>(data.normal());
  for (int64_t row = 0; row < kTokens; ++row) {
    for (int64_t h = 0; h < v.rules.kv_heads; ++h) {
      const bool is_equal = v.course == Course::kEqual;
      size_t at = data.below(1 << 14);
      for (float& x : key) x = is_equal ? 0.25f : static_cast<float>(v.noise) * table[at++];
      key.back() = static_cast<float>(level(v.course, row, v.height));
      log.set(0, row, h, key);
      if (v.rules.is_latent) continue;
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

// Queries that read the course from the last column of the keys.
Tensor queries(const AttendRules& rules, int64_t tokens, Data& data) {
  Tensor q = data.floats(DType::kF32, {tokens, rules.heads, rules.key_width});
  auto* values = reinterpret_cast<float*>(q.data.data());
  for (int64_t i = rules.key_width - 1; i < tokens * rules.heads * rules.key_width; i += rules.key_width) {
    values[i] = static_cast<float>(1 / rules.scale);
  }
  return q;
}

class AttendLong : public testing::TestWithParam<Variant> {};

TEST_P(AttendLong, SampledRowsAreWhatTheFormulaSays) {
  Variant v = GetParam();
  v.rules.scale = 1 / std::sqrt(static_cast<double>(v.rules.key_width));
  Data data(7);
  PagedLog log = make_log(v);
  fill(log, v, data);
  KernelRun call{
      ops::OpKind::kAttend, conformance::attributes(attend_attributes(v.rules)), {}, {&log.declaration()}, {},
      sampled_spans()};
  const auto tokens = static_cast<int64_t>(call.spans.size()) * 4;
  call.operands = {queries(v.rules, tokens, data), Data::state()};
  if (v.has_sinks) call.operands.push_back(data.floats(DType::kBF16, {v.rules.heads}, 4));
  call.states = {&log.view(call.spans.size())};
  const auto* q = reinterpret_cast<const float*>(call.operands[0].data.data());
  const std::vector<double> sinks = v.has_sinks ? call.operands[2].values() : std::vector<double>{};

  std::vector<AttendAnswer> wanted;
  for (const plan::SequenceSpan& span : call.spans) {
    for (int64_t i = 0; i < 4 * v.rules.heads; ++i) {
      const int64_t token = i / v.rules.heads, head = i % v.rules.heads;
      const float* own = q + ((span.first_row + token) * v.rules.heads + head) * v.rules.key_width;
      wanted.push_back(judge_attend(v.rules, log, 0, own, span.start_position + token, head,
                                    v.has_sinks ? sinks[static_cast<size_t>(head)] : -HUGE_VAL));
    }
  }
  const auto width = static_cast<size_t>(v.rules.value_width);
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
      const auto bytes = static_cast<size_t>(v.rules.heads * v.rules.key_width) * sizeof(float);
      last.operands[0] = Data::from(
          {1, v.rules.heads, v.rules.key_width},
          {q + (tokens - 1) * v.rules.heads * v.rules.key_width, q + tokens * v.rules.heads * v.rules.key_width});
      FL_CHECK(last.operands[0].data.size() == bytes);
      const auto y = run(last, *row, pool)[0];
      const size_t first = wanted.size() - static_cast<size_t>(v.rules.heads);
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
  for (const size_t i : {5u, 6u, 8u}) all[i].rules.window = kWindow;
  all[7].rules.chunk = 8192;
  all[8].has_sinks = all[10].has_sinks = true;
  all[9].rules.cap = 30;
  all[9].height = 400;
  all[10].rules.cap = 50;
  all[11].rules.is_latent = true;
  all[11].rules.kv_heads = 1;
  all[11].rules.key_width = 80;
  all[11].rules.value_width = 64;
  all[12].rules.kv_heads = 1;
  all[12].height = 2000;
  return all;
}

std::vector<Variant> chosen_variants() {
  std::vector<Variant> all = variants();
  if (!is_full()) return all;
  std::vector<Variant> more;
  for (const Variant& v : all) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const int64_t width : {v.rules.key_width, v.rules.key_width * 2}) {
        Variant other = v;
        other.dtype = dtype;
        other.rules.key_width = width;
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
