// SPDX-License-Identifier: Apache-2.0
// Factors a hair below 1 with inputs that all point one way, factors of 1, of almost 0 and of 0, keys that stay the
// same for thousands of tokens.
#include "recurrences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace firstlight::long_tests {
namespace {

using ops::OpKind;
using Problem = RecurrenceProblem;
using Row = std::vector<double>;

constexpr int64_t kTokens = kRecurrenceTokens;

size_t at(int64_t i) { return static_cast<size_t>(i); }

template <typename F>
Tensor made(tensor::Shape shape, F&& value) {
  std::vector<float> values(at(tensor::num_elements(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(value(static_cast<int64_t>(i)));
  return Data::from(std::move(shape), values);
}

// Logarithms of factors. Head 0: a hair below 1, always. Head 1: close to 1, now and then 1, almost 0 or 0.
double log_factor(Data& data, int64_t token, int64_t head) {
  if (head == 0) return -0x1p-18;
  if (token % 30011 == 30010) return -std::numeric_limits<double>::infinity();
  if (token % 10007 == 10006) return -80;
  if (token % 997 < 200) return 0;
  return -0.002 * std::fabs(data.normal());
}

// Rows of unit length; the same one for runs of 5,000 tokens in the middle of every 20,000.
std::vector<float> unit_rows(Data& data, int64_t heads, int64_t key) {
  std::vector<float> values(at(kTokens * heads * key));
  Row row(at(key));
  for (int64_t first = 0; first < kTokens * heads; ++first) {
    const int64_t token = first / heads;
    const bool repeats = token % 20000 > 10000 && token % 20000 < 15000;
    double sum = 1e-12;
    for (double& v : row) {
      v = data.normal();
      sum += v * v;
    }
    for (int64_t i = 0; i < key; ++i) {
      float& to = values[at(first * key + i)];
      to = repeats ? values[at((first - heads) * key + i)] : static_cast<float>(row[at(i)] / std::sqrt(sum));
    }
  }
  return values;
}

struct Sizes {
  int64_t heads = 2, key = 16, value = 16;
};

Tensor decays(Data& data, const Sizes& n, bool by_key) {
  if (by_key) {
    return made({kTokens, n.heads, n.key},
                [&](int64_t i) { return log_factor(data, i / n.key / n.heads, i / n.key % n.heads); });
  }
  return made({kTokens, n.heads}, [&](int64_t i) { return log_factor(data, i / n.heads, i % n.heads); });
}

Problem gla(bool by_key, bool has_bonus) {
  Data data(21);
  const Sizes n;
  Problem p{std::string("recur_gla by ") + (by_key ? "key" : "head") + (has_bonus ? ", bonus" : ""),
            OpKind::kRecurGla,
            conformance::attributes("{component = \"s\"}"),
            {},
            {true, true, true, true, false, false},
            n.heads * n.key,
            n.value};
  // All that head 0 adds points one way.
  const auto leaning = [&](int64_t width) {
    return made({kTokens, n.heads, width},
                [&](int64_t i) { return (i / width % n.heads == 0 ? 1.1 : 0) + 0.3 * data.normal(); });
  };
  p.operands = {leaning(n.key), leaning(n.key), leaning(n.value), decays(data, n, by_key), Data::state()};
  if (has_bonus) p.operands.push_back(data.floats(DType::kF32, {n.heads, n.key}));
  return p;
}

Problem delta(bool by_key) {
  Data data(22);
  const Sizes n;
  Problem p{std::string("recur_delta by ") + (by_key ? "key" : "head"),
            OpKind::kRecurDelta,
            conformance::attributes("{component = \"s\"}"),
            {},
            {true, true, true, true, true, false},
            n.heads * n.key,
            n.value};
  const tensor::Shape by_token = {kTokens, n.heads, n.key};
  p.operands = {Data::from(by_token, unit_rows(data, n.heads, n.key)),
                Data::from(by_token, unit_rows(data, n.heads, n.key)),
                data.floats(DType::kF32, {kTokens, n.heads, n.value}),
                decays(data, n, by_key),
                made({kTokens, n.heads}, [&](int64_t) { return 1 / (1 + std::exp(-2 * data.normal())); }),
                Data::state()};
  return p;
}

Problem dplr() {
  Data data(23);
  const Sizes n;
  Problem p{"recur_dplr",
            OpKind::kRecurDplr,
            conformance::attributes("{component = \"s\"}"),
            {},
            {true, true, true, true, true, true, false},
            n.heads * n.value,
            n.key};
  const tensor::Shape by_key = {kTokens, n.heads, n.key};
  const std::vector<float> kk = unit_rows(data, n.heads, n.key);
  std::vector<float> a = kk, b = kk;
  for (float& v : a) v = -v;
  for (size_t first = 0; first < b.size(); first += at(n.key)) {
    const auto share = static_cast<float>(1 / (1 + std::exp(-2 * data.normal())));
    for (int64_t i = 0; i < n.key; ++i) b[first + at(i)] *= share;
  }
  Tensor w = decays(data, n, true);
  // Factors of 0 beside a full share would turn the rule round; here the least is e^-0.6, as the model has it.
  auto* logs = reinterpret_cast<float*>(w.data.data());
  for (int64_t i = 0; i < kTokens * n.heads * n.key; ++i) logs[i] = std::max(logs[i], -0.6f);
  p.operands = {data.floats(DType::kF32, by_key, 0.25),
                std::move(w),
                data.floats(DType::kF32, by_key, 0.25),
                data.floats(DType::kF32, {kTokens, n.heads, n.value}),
                Data::from(by_key, a),
                Data::from(by_key, b),
                Data::state()};
  return p;
}

Problem selective() {
  Data data(24);
  constexpr int64_t kChannels = 24, kStates = 8;
  Problem p{"recur_selective",
            OpKind::kRecurSelective,
            conformance::attributes("{component = \"s\"}"),
            {},
            {true, true, false, true, true, false},
            kChannels,
            kStates};
  // Steps from 1e-5 to 1 with rates from e^-3 to e^3: factors from 1 - 1e-6 down to e^-20.
  const auto steps = [&](int64_t i) {
    return std::pow(10.0, -5.0 * static_cast<double>(i % kChannels) / kChannels) *
           (0.5 + 0.5 / (1 + std::exp(-data.normal())));
  };
  p.operands = {made({kTokens, kChannels}, [&](int64_t) { return 1 + 0.5 * data.normal(); }),
                made({kTokens, kChannels}, steps),
                made({kChannels, kStates}, [&](int64_t) { return -std::exp(data.normal()); }),
                made({kTokens, kStates}, [&](int64_t) { return 1 + 0.5 * data.normal(); }),
                data.floats(DType::kF32, {kTokens, kStates}),
                Data::state()};
  return p;
}

Problem elementwise() {
  Data data(25);
  constexpr int64_t kChannels = 24;
  Problem p{"recur_elementwise",
            OpKind::kRecurElementwise,
            conformance::attributes("{component = \"s\"}"),
            {},
            {true, true, false},
            1,
            kChannels};
  const auto factor = [&](int64_t i) {
    const int64_t channel = i % kChannels, token = i / kChannels;
    if (channel == 0) return 1.0;
    if (channel < 8) return 1 - std::pow(2.0, -static_cast<double>(24 - channel));
    if (token % 50021 == 50020) return channel % 2 == 0 ? 0.0 : 1e-20;
    return 1 / (1 + std::exp(-3 - 2 * data.normal()));
  };
  p.operands = {made({kTokens, kChannels}, factor),
                made({kTokens, kChannels}, [&](int64_t i) { return i % kChannels < 4 ? 1.1 : data.normal(); }),
                Data::state()};
  return p;
}

Problem conv1d(int64_t dilation) {
  Data data(26);
  constexpr int64_t kChannels = 24, kTaps = 4;
  Problem p{"conv1d, dilation " + std::to_string(dilation),
            OpKind::kConv1d,
            conformance::attributes("{component = \"s\", dilation = " + std::to_string(dilation) + "}"),
            {},
            {true, false, false, false},
            (kTaps - 1) * dilation,
            kChannels};
  p.operands = {data.floats(DType::kF32, {kTokens, kChannels}), data.floats(DType::kF32, {kChannels, kTaps}),
                Data::state(), data.floats(DType::kF32, {kChannels})};
  return p;
}

Problem shift() {
  Data data(27);
  Problem p{"shift", OpKind::kShift, conformance::attributes("{component = \"s\"}"), {}, {true, false}, 1, 24};
  p.operands = {data.floats(DType::kF32, {kTokens, 24}), Data::state()};
  return p;
}

}  // namespace

const std::vector<int64_t>& sampled_tokens() {
  static const std::vector<int64_t> rows = [] {
    std::set<int64_t> all = {0, 1, 2, 30, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 4098, 4099, 4100, 65535, 65536};
    for (int64_t i = 0; i < 8; ++i) all.insert(kTokens - 1 - i);
    Data data(3);
    while (all.size() < 64) all.insert(static_cast<int64_t>(data.below(kTokens)));
    return std::vector<int64_t>(all.begin(), all.end());
  }();
  return rows;
}

std::vector<MakeRecurrenceProblem> recurrence_problems() {
  return {[] { return gla(false, false); },
          [] { return gla(true, false); },
          [] { return gla(true, true); },
          [] { return delta(false); },
          [] { return delta(true); },
          dplr,
          selective,
          elementwise,
          [] { return conv1d(1); },
          [] { return conv1d(5); },
          shift};
}

}  // namespace firstlight::long_tests
