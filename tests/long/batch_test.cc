// SPDX-License-Identifier: Apache-2.0
// Batches of 256 sequences: prompts of 512 tokens each, and one token each at depths from 0 to 131,071. Rows sampled
// all over the batch against the formulas in float64. (Recurrences and routers: in their own tests.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attend_judge.h"
#include "kernel_run.h"
#include "packed.h"

namespace firstlight::long_tests {
namespace {

constexpr int64_t kSequences = 256, kEach = 512, kTokens = kSequences * kEach, kPageRows = 64;

size_t at(int64_t i) { return static_cast<size_t>(i); }
const float* floats(const Tensor& t) { return reinterpret_cast<const float*>(t.data.data()); }

std::vector<int64_t> sampled_rows() {
  std::vector<int64_t> rows = {0, 1, 63, 64, 511, 512, 513, kTokens / 2 - 1, kTokens / 2, kTokens - kEach, kTokens - 1};
  Data data(8);
  while (rows.size() < 64) rows.push_back(data.below(kTokens));
  return rows;
}

std::vector<plan::SequenceSpan> spans_of_512() {
  std::vector<plan::SequenceSpan> spans;
  for (int64_t s = 0; s < kSequences; ++s) spans.push_back({s * kEach, kEach, 0, kEach});
  return spans;
}

void fill(PagedLog& log, const AttendRules& rules) {
  Data data(9);
  std::vector<float> table(1 << 15), row(at(std::max(rules.key_width, rules.value_width)));
  for (float& v : table) v = static_cast<float>(data.normal());
  for (int64_t r = 0; r < log.rows(); ++r) {
    for (int64_t h = 0; h < rules.kv_heads; ++h) {
      for (const size_t component : {0u, 1u}) {
        const size_t from = data.below(1 << 14);
        const auto width = at(component == 0 ? rules.key_width : rules.value_width);
        std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(from), width, row.begin());
        log.set(component, r, h, {row.data(), width});
      }
    }
  }
}

PagedLog make_log(const AttendRules& rules, DType dtype) {
  return {{{"k", rules.kv_heads, rules.key_width, dtype}, {"v", rules.kv_heads, rules.value_width, dtype}},
          kTokens,
          kPageRows};
}

AttendRules rules_of(int64_t window) {
  AttendRules rules;
  rules.heads = 2;
  rules.kv_heads = 1;
  rules.window = window;
  rules.scale = 1 / std::sqrt(static_cast<double>(rules.key_width));
  return rules;
}

class Batch : public testing::TestWithParam<std::pair<DType, int64_t>> {};  // stored type, window

TEST_P(Batch, AttendOf512TokensIn256Sequences) {
  const auto [dtype, window] = GetParam();
  const AttendRules rules = rules_of(window);
  PagedLog log = make_log(rules, dtype);
  fill(log, rules);
  Data data(12);
  KernelRun call{ops::OpKind::kAttend,
                 conformance::attributes(attend_attributes(rules)),
                 {},
                 {&log.declaration()},
                 {&log.sliced_view(kEach / kPageRows)},
                 spans_of_512()};
  call.operands = {data.floats(DType::kF32, {kTokens, rules.heads, rules.key_width}), Data::state()};
  ThreadPool pool({2, false, 20});
  for (const catalog::KernelRow* row : host_rows(call, is_full())) {
    const auto y = run(call, *row, pool)[0];
    Tally tally;
    for (const int64_t r : sampled_rows()) {
      for (int64_t h = 0; h < rules.heads; ++h) {
        const int64_t place = r * rules.heads + h;
        const AttendAnswer wanted = judge_attend(rules, log, r / kEach * kEach,
                                                 floats(call.operands[0]) + place * rules.key_width, r % kEach, h);
        for (int64_t i = 0; i < rules.value_width; ++i) {
          tally.add(static_cast<double>(y[at(place * rules.value_width + i)]), wanted.y[at(i)], wanted.bound);
        }
      }
    }
    tally.conclude(
        "256 x 512: attend, " + std::string(tensor::dtype_name(dtype)) + ", window " + std::to_string(window),
        place_of(*row));
  }
}

TEST_P(Batch, AttendOfOneTokenAtRaggedDepths) {
  const auto [dtype, window] = GetParam();
  const AttendRules rules = rules_of(window);
  PagedLog log = make_log(rules, dtype);
  fill(log, rules);
  Data data(13);
  KernelRun call{ops::OpKind::kAttend,
                 conformance::attributes(attend_attributes(rules)),
                 {},
                 {&log.declaration()},
                 {&log.view(kSequences)},
                 {}};
  for (int64_t s = 0; s < kSequences; ++s) {
    int64_t depth = data.below(8192);
    if (s % 16 == 0) depth = s / 16 * 8191;  // up to 122,865, beside pages' ends
    call.spans.push_back({s, 1, s == 255 ? kTokens - 1 : depth, kTokens});
  }
  call.operands = {data.floats(DType::kF32, {kSequences, rules.heads, rules.key_width}), Data::state()};
  for (const int threads : {1, 3}) {
    ThreadPool pool({threads, false, 20});
    for (const catalog::KernelRow* row : host_rows(call, false)) {
      const auto y = run(call, *row, pool)[0];
      Tally tally;
      for (int64_t s = 0; s < kSequences; s += s % 16 == 0 ? 3 : 13) {
        const int64_t sequence = s == 0 ? 255 : s;
        for (int64_t h = 0; h < rules.heads; ++h) {
          const int64_t place = sequence * rules.heads + h;
          const AttendAnswer wanted = judge_attend(rules, log, 0, floats(call.operands[0]) + place * rules.key_width,
                                                   call.spans[at(sequence)].start_position, h);
          for (int64_t i = 0; i < rules.value_width; ++i) {
            tally.add(static_cast<double>(y[at(place * rules.value_width + i)]), wanted.y[at(i)], wanted.bound);
          }
        }
      }
      tally.conclude("256 rows at ragged depths: attend, " + std::string(tensor::dtype_name(dtype)) + ", window " +
                         std::to_string(window) + ", " + std::to_string(threads) + " threads",
                     place_of(*row));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, Batch,
                         testing::Values(std::pair{DType::kF32, int64_t{0}}, std::pair{DType::kF16, int64_t{64}},
                                         std::pair{DType::kBF16, int64_t{0}}));

TEST(BatchRows, ProductsOf131072Rows) {
  constexpr int64_t kColumns = 64, kRows = 48;
  ThreadPool pool({2, false, 20});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
    Data data(14);
    const conformance::Case plain{
        "", ops::OpKind::kLinear,
        {}, {data.floats(DType::kF32, {kTokens, kColumns}), data.floats(dtype, {kRows, kColumns})},
        {}, {}};
    const std::vector<double> w = plain.operands[1].values();
    KernelRun call{plain.op, {}, conformance::packed(plain)->operands, {}, {}, {{0, kTokens, 0, kTokens}}};
    for (const catalog::KernelRow* row : host_rows(call, false)) {
      const auto y = run(call, *row, pool)[0];
      Tally tally;
      for (const int64_t r : sampled_rows()) {
        for (int64_t o = 0; o < kRows; ++o) {
          double sum = 0, size = 0;
          for (int64_t i = 0; i < kColumns; ++i) {
            const double product =
                w[at(o * kColumns + i)] * static_cast<double>(floats(plain.operands[0])[r * kColumns + i]);
            sum += product;
            size += std::fabs(product);
          }
          tally.add(static_cast<double>(y[at(r * kRows + o)]), sum, 1.01 * (kColumns + 4) * kUnit * size);
        }
      }
      tally.conclude("256 x 512: linear, " + std::string(tensor::dtype_name(dtype)), place_of(*row));
    }
  }
}

TEST(BatchRows, NormsAndSoftmaxOf131072Rows) {
  constexpr int64_t kColumns = 96;
  ThreadPool pool({2, false, 20});
  Data data(15);
  Tensor x = data.floats(DType::kF32, {kTokens, kColumns}, 3);
  const Tensor weight = data.floats(DType::kF32, {kColumns});
  KernelRun norm{ops::OpKind::kRmsNorm, conformance::attributes("{eps = 1e-6}"), {x, weight}, {}, {}, {}};
  for (const catalog::KernelRow* row : host_rows(norm, is_full())) {
    const auto y = run(norm, *row, pool)[0];
    Tally tally;
    for (const int64_t r : sampled_rows()) {
      double squares = 0;
      for (int64_t i = 0; i < kColumns; ++i) squares += std::pow(static_cast<double>(floats(x)[r * kColumns + i]), 2);
      for (int64_t i = 0; i < kColumns; ++i) {
        const double wanted = static_cast<double>(floats(x)[r * kColumns + i]) / std::sqrt(squares / kColumns + 1e-6) *
                              static_cast<double>(floats(weight)[i]);
        tally.add(static_cast<double>(y[at(r * kColumns + i)]), wanted, 4 * kUnit * std::fabs(wanted));
      }
    }
    tally.conclude("256 x 512: rms_norm", place_of(*row));
  }
  KernelRun softmax{ops::OpKind::kSoftmax, {}, {x}, {}, {}, {}};
  for (const catalog::KernelRow* row : host_rows(softmax, is_full())) {
    const auto y = run(softmax, *row, pool)[0];
    Tally tally;
    for (const int64_t r : sampled_rows()) {
      const float* own = floats(x) + r * kColumns;
      const auto top = static_cast<double>(*std::max_element(own, own + kColumns));
      double total = 0;
      for (int64_t i = 0; i < kColumns; ++i) total += std::exp(static_cast<double>(own[i]) - top);
      for (int64_t i = 0; i < kColumns; ++i) {
        const double wanted = std::exp(static_cast<double>(own[i]) - top) / total;
        const double units = kColumns / 128.0 + 8 + std::fabs(static_cast<double>(own[i]) - top);
        tally.add(static_cast<double>(y[at(r * kColumns + i)]), wanted, units * kUnit * wanted + 0x1p-147);
      }
    }
    tally.conclude("256 x 512: softmax", place_of(*row));
  }
}

}  // namespace
}  // namespace firstlight::long_tests
