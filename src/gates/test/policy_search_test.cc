// SPDX-License-Identifier: Apache-2.0
// Choices among made-up units, against trying every combination. Searches with runs of a model: sensitivity_test.cc.
#include "gates/policy_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace firstlight::gates {
namespace {

constexpr int64_t kOthers = 1000;

struct Sum {
  int64_t bytes = 0;
  double kl = 0;
};

Sum sum_of(const std::vector<Unit>& units, const std::vector<int>& chosen) {
  Sum sum;
  for (size_t u = 0; u < units.size(); ++u) {
    const UnitFormat* format = chosen[u] < 0 ? nullptr : &units[u].formats[static_cast<size_t>(chosen[u])];
    sum.bytes += format == nullptr ? units[u].bytes : format->bytes;
    sum.kl += format == nullptr ? 0 : format->kl;
  }
  return sum;
}

std::vector<Unit> random_units(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<Unit> units;
  for (size_t u = 0; u < count; ++u) {
    Unit unit{.name = "u" + std::to_string(u), .layer = {}, .kind = {}, .tensors = {}};
    unit.bytes = 160 + static_cast<int64_t>(random() % 100) * 16;
    const double scale = std::pow(10.0, -static_cast<double>(random() % 4));
    for (const auto& [name, share, kl] : {std::tuple{"int4:32", 0.28, 1.0}, std::tuple{"mxfp4", 0.27, 0.7},
                                          std::tuple{"fp8", 0.5, 0.03}, std::tuple{"int8", 0.52, 0.004}}) {
      UnitFormat format{.choice = adapt::QuantChoice::parse(name).value()};
      format.bytes = static_cast<int64_t>(share * static_cast<double>(unit.bytes));
      format.kl = scale * kl * (0.5 + static_cast<double>(random() % 1000) / 1000);
      format.measured = true;
      unit.formats.push_back(format);
    }
    units.push_back(unit);
  }
  units[0].formats[0].obstacle = "for a reason";
  return units;
}

// All combinations of four formats or none.
template <typename Visit>
void every_choice(const std::vector<Unit>& units, const Visit& visit) {
  std::vector<int> chosen(units.size(), -1);
  for (;;) {
    bool allowed = true;
    for (size_t u = 0; u < units.size(); ++u) {
      allowed = allowed && (chosen[u] < 0 || units[u].formats[static_cast<size_t>(chosen[u])].obstacle.empty());
    }
    if (allowed) visit(sum_of(units, chosen));
    size_t u = 0;
    while (u < units.size() && ++chosen[u] == 4) chosen[u++] = -1;
    if (u == units.size()) return;
  }
}

// Greedy along hulls is at most the last upgrade away from the best there is.
TEST(PolicySearch, BytesAreSpentWhereTheyHelpMost) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    const auto units = random_units(seed, 5);
    int64_t least = 0, most = 0;
    for (const Unit& unit : units) {
      int64_t smallest = unit.bytes;
      for (const auto& format : unit.formats) {
        if (format.obstacle.empty()) smallest = std::min(smallest, format.bytes);
      }
      least += smallest;
      most += unit.bytes;
    }
    for (const double share : {0.0, 0.3, 0.6, 1.0}) {
      const int64_t limit = kOthers + least + static_cast<int64_t>(share * static_cast<double>(most - least));
      const auto chosen = choose_for_bytes(units, kOthers, limit);
      ASSERT_TRUE(chosen.ok()) << chosen.status().to_string();
      EXPECT_NE((*chosen)[0], 0) << "what can not be stored so";
      const Sum found = sum_of(units, *chosen);
      EXPECT_LE(found.bytes + kOthers, limit);
      double best = 1e9, with_less = 1e9;
      every_choice(units, [&](const Sum& sum) {
        if (sum.bytes + kOthers <= limit) best = std::min(best, sum.kl);
        if (sum.bytes + kOthers + 900 <= limit) with_less = std::min(with_less, sum.kl);
      });
      EXPECT_GE(found.kl, best - 1e-12);
      EXPECT_LE(found.kl, std::max(best, with_less) + 1e-12) << "seed " << seed << ", " << share;
    }
    const auto refused = choose_for_bytes(units, kOthers, kOthers + least - 1);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find(std::to_string(kOthers + least)), std::string::npos);
  }
}

TEST(PolicySearch, EffectsSumUpToTheLimitAtMost) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    const auto units = random_units(seed, 5);
    int64_t before = 0;
    for (const double limit : {10.0, 0.3, 0.01, 1e-4, 0.0}) {
      const Sum found = sum_of(units, choose_for_kl(units, limit));
      EXPECT_LE(found.kl, limit + 1e-12);
      EXPECT_GE(found.bytes, before) << "a smaller limit can not save more";
      before = found.bytes;
    }
    for (const int format : choose_for_kl(units, 0)) EXPECT_EQ(format, -1);
  }
}

TEST(PolicySearch, RulesOfOneFormatStandTogetherAndWhatStaysLast) {
  const auto units = random_units(1, 4);
  const auto policy = policy_of(units, {3, -1, 1, 3});
  ASSERT_EQ(policy.rules.size(), 4u);
  EXPECT_EQ(policy.rules[0].modules, "u0");
  EXPECT_EQ(policy.rules[1].modules, "u3");
  EXPECT_EQ(policy.rules[2].modules, "u2");
  EXPECT_EQ(policy.rules[2].choice->name(), "mxfp4");
  EXPECT_EQ(policy.rules[3].modules, "u1");
  EXPECT_FALSE(policy.rules[3].choice.has_value());
}

}  // namespace
}  // namespace firstlight::gates
