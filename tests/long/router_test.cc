// SPDX-License-Identifier: Apache-2.0
// Routers over 131,072 tokens: 64 sampled rows against the formula in float64. Experts come in twins whose weights are
// the same, so that every choice meets scores that are equal to the bit: the lower number goes first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernel_run.h"
#include "packed.h"

namespace firstlight::long_tests {
namespace {

using Row = std::vector<double>;

constexpr int64_t kTokens = 131072, kHidden = 32, kExperts = 64;

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Router {
  std::string name, score, after;
  int64_t k = 8, groups = 1, top_groups = 1, group_best = 1;
  bool has_bias = false, has_correction = false;
  double scale = 1;
};

conformance::Case make_case(const Router& r) {
  Data data(41);
  std::string text = "{k = " + std::to_string(r.k) + ", score = \"" + r.score + "\", after = \"" + r.after +
                     "\", groups = " + std::to_string(r.groups) + ", top_groups = " + std::to_string(r.top_groups) +
                     ", group_best = " + std::to_string(r.group_best) + ", scale = " + ops::exact_decimal(r.scale);
  if (r.has_bias) text += ", bias = true";
  if (r.has_correction) text += ", correction = true";
  if (r.after == "sum") text += ", eps = 1e-20";
  Tensor x = data.floats(DType::kF32, {kTokens, kHidden});
  auto* values = reinterpret_cast<float*>(x.data.data());
  // Runs of equal tokens, tokens of zeros (all scores equal), tokens a thousand times as large.
  for (int64_t t = 1; t < kTokens; ++t) {
    float* row = values + t * kHidden;
    if (t % 1000 < 100) std::memcpy(row, row - kHidden, kHidden * sizeof(float));
    if (t % 4096 == 4095) std::fill_n(row, kHidden, 0.0f);
    if (t % 5003 == 5002) std::transform(row, row + kHidden, row, [](float v) { return 1000 * v; });
  }
  Tensor w = data.floats(DType::kF32, {kExperts, kHidden}, 0.3);
  auto* rows = reinterpret_cast<float*>(w.data.data());
  std::memcpy(rows + kExperts / 2 * kHidden, rows, kExperts / 2 * kHidden * sizeof(float));
  conformance::Case c{r.name, ops::OpKind::kRoute, conformance::attributes(text + "}"), {x, w}, {}, {}};
  const auto twins = [&](double scale) {
    Tensor vector = data.floats(DType::kF32, {kExperts}, scale);
    auto* own = reinterpret_cast<float*>(vector.data.data());
    std::copy_n(own, kExperts / 2, own + kExperts / 2);
    return vector;
  };
  if (r.has_bias) c.operands.push_back(twins(0.5));
  if (r.has_correction) c.operands.push_back(twins(0.05));
  FL_CHECK(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
  return c;
}

// A token's products, how far off they may be, the scores and what is chosen by.
struct Scores {
  Row plain, choice;
  double off = 0;  // of any score or choice
};

Scores scores_of(const Router& r, const conformance::Case& c, int64_t token) {
  const auto* x = reinterpret_cast<const float*>(c.operands[0].data.data()) + token * kHidden;
  const auto* w = reinterpret_cast<const float*>(c.operands[1].data.data());
  Scores out;
  double product_off = 0;
  for (int64_t e = 0; e < kExperts; ++e) {
    double sum = r.has_bias ? static_cast<double>(reinterpret_cast<const float*>(c.operands[2].data.data())[e]) : 0;
    double size = std::fabs(sum);
    for (int64_t i = 0; i < kHidden; ++i) {
      const double product = static_cast<double>(x[i]) * static_cast<double>(w[e * kHidden + i]);
      sum += product;
      size += std::fabs(product);
    }
    out.plain.push_back(sum);
    product_off = std::max(product_off, 1.01 * (kHidden + 5) * kUnit * size);
  }
  out.off = product_off;
  if (r.score == "softmax") {
    const double top = *std::max_element(out.plain.begin(), out.plain.end());
    double total = 0;
    for (double& v : out.plain) total += v = std::exp(v - top);
    for (double& v : out.plain) v /= total;
    out.off = 2 * product_off + 20 * kUnit + 2 * kUnit * top;  // of a score of at most 1
  }
  if (r.score == "sigmoid") {
    for (double& v : out.plain) v = 1 / (1 + std::exp(-v));
    out.off = product_off / 4 + 8 * kUnit;
  }
  out.choice = out.plain;
  if (r.has_correction) {
    const auto* more = reinterpret_cast<const float*>(c.operands.back().data.data());
    for (int64_t e = 0; e < kExperts; ++e) out.choice[at(e)] += static_cast<double>(more[e]);
    out.off += 2 * kUnit;
  }
  return out;
}

// Sum of the largest of a group's choices.
double group_value(const Router& r, const Scores& s, int64_t group) {
  const int64_t size = kExperts / r.groups;
  Row own(s.choice.begin() + group * size, s.choice.begin() + (group + 1) * size);
  std::sort(own.rbegin(), own.rend());
  double sum = 0;
  for (int64_t i = 0; i < r.group_best; ++i) sum += own[at(i)];
  return sum;
}

// Each place holds an expert as good as any that is left, within the room; of equal ones the lower number.
void expect_choice(const Router& r, const Scores& s, const int32_t* found, const std::string& where) {
  const int64_t size = kExperts / r.groups;
  std::vector<bool> taken(at(kExperts), false);
  std::vector<double> groups;
  for (int64_t g = 0; g < r.groups; ++g) groups.push_back(group_value(r, s, g));
  Row order = groups;
  std::sort(order.rbegin(), order.rend());
  const double last_group = order[at(r.top_groups - 1)];
  const double group_room = 2 * s.off * static_cast<double>(r.group_best);
  // Twins of groups: those of the upper half come after those of the lower.
  const auto may_be_in = [&](int64_t e) { return groups[at(e / size)] >= last_group - group_room; };
  const auto must_be_in = [&](int64_t e) {
    const double own = groups[at(e / size)];
    int64_t before = 0;
    for (int64_t g = 0; g < r.groups; ++g) {
      const bool is_twin = g != e / size && g % ((r.groups + 1) / 2) == e / size % ((r.groups + 1) / 2);
      if (is_twin ? g < e / size : groups[at(g)] >= own - group_room) before += g != e / size ? 1 : 0;
    }
    return before < r.top_groups;
  };
  for (int64_t place = 0; place < r.k; ++place) {
    const int64_t e = found[place];
    ASSERT_TRUE(e >= 0 && e < kExperts && !taken[at(e)]) << where << ": expert " << e;
    ASSERT_TRUE(may_be_in(e)) << where << ": expert " << e << " of a group that is not among the best";
    for (int64_t other = 0; other < kExperts; ++other) {
      if (taken[at(other)] || other == e || (r.groups > 1 && !must_be_in(other))) continue;
      const bool is_twin = other % (kExperts / 2) == e % (kExperts / 2);
      const double lead = s.choice[at(other)] - s.choice[at(e)];
      ASSERT_TRUE(is_twin ? other > e : lead <= 2 * s.off)
          << where << ": place " << place << " has expert " << e << ", " << other << " was wanted before it";
    }
    taken[at(e)] = true;
  }
}

// Of what was chosen.
void expect_weights(const Router& r, const Scores& s, const int32_t* found, const float* weights, Tally& tally) {
  Row chosen;
  for (int64_t i = 0; i < r.k; ++i) chosen.push_back(s.plain[at(found[i])]);
  double bound = s.off + kUnit;
  if (r.after == "softmax") {
    const double top = *std::max_element(chosen.begin(), chosen.end());
    double total = 0;
    for (double& v : chosen) total += v = std::exp(v - top);
    for (double& v : chosen) v /= total;
    bound = 2 * s.off + 30 * kUnit;
  } else if (r.after == "sum") {
    double total = 0;
    for (const double v : chosen) total += v;
    for (double& v : chosen) v /= total;
    bound = s.off * static_cast<double>(r.k + 1) / total + 16 * kUnit;
  }
  for (int64_t i = 0; i < r.k; ++i) {
    tally.add(static_cast<double>(weights[i]), chosen[at(i)] * r.scale, bound * r.scale);
  }
}

class RouterLong : public testing::TestWithParam<Router> {};

TEST_P(RouterLong, SampledRowsAreWhatTheFormulaSays) {
  const Router& r = GetParam();
  const conformance::Case plain = make_case(r);
  Data data(6);
  std::vector<int64_t> sampled = {0, 1, 50, 99, 100, 4095, 5002, 8191, 65536, 131071, 126975, 125049};
  while (sampled.size() < 64) sampled.push_back(data.below(kTokens));
  ThreadPool pool({2, false, 20});
  const auto product =
      conformance::packed({"", ops::OpKind::kLinear, {}, {plain.operands[0], plain.operands[1]}, {}, {}});
  ASSERT_TRUE(product.has_value());
  int ran = 0;
  for (const Tensor& weight : {plain.operands[1], product->operands[1]}) {
    KernelRun call{plain.op, plain.attributes, plain.operands, {}, {}, {{0, kTokens, 0, kTokens}}};
    call.operands[1] = weight;
    for (const catalog::KernelRow* row : host_rows(call, is_full())) {
      ++ran;
      const auto results = run(call, *row, pool);
      const auto* indices = reinterpret_cast<const int32_t*>(results[1].data());
      Tally tally;
      for (const int64_t t : sampled) {
        const Scores s = scores_of(r, plain, t);
        expect_choice(r, s, indices + t * r.k, r.name + " on " + place_of(*row) + ", token " + std::to_string(t));
        expect_weights(r, s, indices + t * r.k, results[0].data() + t * r.k, tally);
      }
      tally.conclude("route " + r.name, place_of(*row));
    }
  }
  EXPECT_GT(ran, 0);
}

const Router kRouters[] = {
    {"softmax, 8 of 64, divided by their sum", "softmax", "sum"},
    {"sigmoid with correction, 4 of 8 groups by their best two", "sigmoid", "sum", 8, 8, 4, 2, false, true, 2.5},
    {"bias, 4 of 64, softmax of the chosen", "none", "softmax", 4, 1, 1, 1, true},
    {"sigmoid, one", "sigmoid", "none", 1},
};

INSTANTIATE_TEST_SUITE_P(Routers, RouterLong, testing::ValuesIn(kRouters),
                         [](const auto& tested) { return std::to_string(tested.index); });

}  // namespace
}  // namespace firstlight::long_tests
