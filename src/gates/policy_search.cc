// SPDX-License-Identifier: Apache-2.0
#include "gates/policy_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace firstlight::gates {
namespace {

constexpr int kMostRounds = 8;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A way to store a unit; `format` -1: as it is.
struct Point {
  int format = -1;
  int64_t bytes = 0;
  double kl = 0;
};

// The lower convex hull of a unit's points, from the fewest bytes on: each further byte helps less than the one before.
std::vector<Point> hull_of(const Unit& unit) {
  std::vector<Point> points = {{-1, unit.bytes, 0}};
  for (size_t i = 0; i < unit.formats.size(); ++i) {
    const UnitFormat& format = unit.formats[i];
    const bool known = format.measured || format.kl > 0 || format.relative_error == 0;
    if (format.obstacle.empty() && known) points.push_back({static_cast<int>(i), format.bytes, format.kl});
  }
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.kl < b.kl; });
  std::vector<Point> hull;
  const auto slope = [](const Point& a, const Point& b) {
    return (b.kl - a.kl) / static_cast<double>(b.bytes - a.bytes);
  };
  for (const Point& point : points) {
    if (!hull.empty() && point.kl >= hull.back().kl) continue;  // more bytes, no better
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), point)) hull.pop_back();
    hull.push_back(point);
  }
  return hull;
}

// A step of one unit along its hull.
struct Upgrade {
  size_t unit = 0;
  size_t to = 0;  // place in the hull
  double gain_per_byte = 0;
};

class Chooser {
 public:
  explicit Chooser(const std::vector<Unit>& units) {
    for (const Unit& unit : units) hulls_.push_back(hull_of(unit));
    places_.assign(units.size(), 0);
    for (size_t u = 0; u < hulls_.size(); ++u) {
      for (size_t i = 1; i < hulls_[u].size(); ++i) {
        const Point &from = hulls_[u][i - 1], &to = hulls_[u][i];
        upgrades_.push_back({u, i, (from.kl - to.kl) / static_cast<double>(to.bytes - from.bytes)});
      }
    }
    std::stable_sort(upgrades_.begin(), upgrades_.end(),
                     [](const Upgrade& a, const Upgrade& b) { return a.gain_per_byte > b.gain_per_byte; });
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (size_t u = 0; u < hulls_.size(); ++u) sum += hulls_[u][places_[u]].bytes;
    return sum;
  }
  double kl() const {
    double sum = 0;
    for (size_t u = 0; u < hulls_.size(); ++u) sum += hulls_[u][places_[u]].kl;
    return sum;
  }

  // Upgrades while they fit. One that does not ends its unit's way, not the others'.
  void spend(int64_t bytes) {
    for (const Upgrade& upgrade : upgrades_) {
      const auto& hull = hulls_[upgrade.unit];
      size_t& place = places_[upgrade.unit];
      const int64_t more = hull[upgrade.to].bytes - hull[place].bytes;
      if (upgrade.to != place + 1 || more > bytes) continue;
      bytes -= more;
      place = upgrade.to;
    }
  }

  void reach(double kl) {
    double now = this->kl();
    for (const Upgrade& upgrade : upgrades_) {
      if (now <= kl) return;
      const auto& hull = hulls_[upgrade.unit];
      now += hull[upgrade.to].kl - hull[places_[upgrade.unit]].kl;
      places_[upgrade.unit] = upgrade.to;
    }
  }

  std::vector<int> chosen() const {
    std::vector<int> chosen;
    for (size_t u = 0; u < hulls_.size(); ++u) chosen.push_back(hulls_[u][places_[u]].format);
    return chosen;
  }

 private:
  std::vector<std::vector<Point>> hulls_;
  std::vector<size_t> places_;
  std::vector<Upgrade> upgrades_;
};

double predicted(const std::vector<Unit>& units, const std::vector<int>& chosen) {
  double sum = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    if (chosen[u] >= 0) sum += units[u].formats[static_cast<size_t>(chosen[u])].kl;
  }
  return sum;
}

int64_t bytes_in(const std::vector<Unit>& units) {
  int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.bytes;
  return sum;
}

class Searcher {
 public:
  Searcher(const std::vector<Unit>& units, VariantRunner& runner, const PolicyBudget& budget,
           const std::function<void(const PolicyProposal&)>& on_round)
      : units_(units), runner_(runner), budget_(budget), on_round_(on_round) {}

  Result<PolicyProposal> run() {
    if (budget_.target_bytes) return for_bytes();
    return for_effect();
  }

 private:
  Result<PolicyProposal> for_bytes() {
    const int64_t others = runner_.untouched().bytes - bytes_in(units_);
    PolicyProposal proposal = FL_TRY(measured(FL_TRY(choose_for_bytes(units_, others, *budget_.target_bytes))));
    proposal.within_budget = proposal.variant.bytes <= *budget_.target_bytes;
    if (on_round_) on_round_(proposal);
    return proposal;
  }

  // What the budget is about, of a measured whole.
  double amount(const Variant& variant) const {
    if (budget_.max_kl) return variant.effect.kl;
    return variant.effect.perplexity / runner_.untouched().effect.perplexity - 1;
  }

  Result<PolicyProposal> for_effect() {
    const double wanted = budget_.max_kl ? *budget_.max_kl : *budget_.max_perplexity_increase;
    // A perplexity that rises by a share is at first a sum of logarithms as large as the divergence.
    double aim = budget_.max_kl ? wanted : std::log1p(wanted);
    double too_much = kInfinite;  // the least aim that missed
    std::optional<PolicyProposal> best;
    for (rounds_ = 0; rounds_ < kMostRounds;) {
      const std::vector<int> chosen = choose_for_kl(units_, aim);
      if (std::all_of(chosen.begin(), chosen.end(), [](int format) { return format < 0; })) break;
      if (best && chosen == best->chosen) break;
      PolicyProposal proposal = FL_TRY(measured(chosen));
      const double found = amount(proposal.variant);
      proposal.within_budget = found <= wanted;
      if (on_round_) on_round_(proposal);
      // Small effects add up as their sum says, so the aim moves by the ratio; a margin keeps it from missing narrowly.
      const double ratio = found > 0 ? wanted / found : 2.0;
      if (!proposal.within_budget) {
        too_much = std::min(too_much, aim);
        aim *= std::min(0.9, 0.95 * ratio);
      } else {
        const bool close = found > 0.85 * wanted;
        if (!best || proposal.variant.bytes <= best->variant.bytes) best = std::move(proposal);
        if (close) break;
        aim = std::min(aim * std::min(2.0, 0.97 * ratio), too_much < kInfinite ? 0.5 * (aim + too_much) : kInfinite);
      }
    }
    if (best) {
      best->rounds = rounds_;
      return std::move(*best);
    }
    return invalid_argument("the budget is met by nothing but the model as it is");
  }

  Result<PolicyProposal> measured(const std::vector<int>& chosen) {
    PolicyProposal proposal{.policy = policy_of(units_, chosen), .chosen = chosen};
    proposal.predicted_kl = predicted(units_, chosen);
    proposal.variant = FL_TRY(runner_.run(proposal.policy));
    proposal.rounds = ++rounds_;
    return proposal;
  }

  const std::vector<Unit>& units_;
  VariantRunner& runner_;
  const PolicyBudget& budget_;
  const std::function<void(const PolicyProposal&)>& on_round_;
  int rounds_ = 0;
};

}  // namespace

Result<std::vector<int>> choose_for_bytes(const std::vector<Unit>& units, int64_t other_bytes, int64_t bytes) {
  Chooser chooser(units);
  const int64_t least = other_bytes + chooser.bytes();
  if (least > bytes) {
    return invalid_argument("--target-bytes " + std::to_string(bytes) + ": these formats give " +
                            std::to_string(least) + " at the least");
  }
  chooser.spend(bytes - least);
  return chooser.chosen();
}

std::vector<int> choose_for_kl(const std::vector<Unit>& units, double kl) {
  Chooser chooser(units);
  chooser.reach(kl);
  return chooser.chosen();
}

adapt::QuantPolicy policy_of(const std::vector<Unit>& units, const std::vector<int>& chosen) {
  adapt::QuantPolicy policy;
  for (size_t u = 0; u < units.size(); ++u) {
    if (chosen[u] < 0) {
      policy.rules.push_back({.modules = units[u].name, .choice = {}, .said = "the policy"});
    } else {
      const adapt::QuantChoice& choice = units[u].formats[static_cast<size_t>(chosen[u])].choice;
      policy.rules.push_back({.modules = units[u].name, .choice = choice, .said = "the policy"});
    }
  }
  std::stable_sort(policy.rules.begin(), policy.rules.end(), [](const adapt::QuantRule& a, const adapt::QuantRule& b) {
    if (a.choice.has_value() != b.choice.has_value()) return a.choice.has_value();
    return a.choice < b.choice;
  });
  return policy;
}

Result<PolicyProposal> search_policy(const std::vector<Unit>& units, VariantRunner& runner, const PolicyBudget& budget,
                                     const std::function<void(const PolicyProposal&)>& on_round) {
  const int given = (budget.max_kl ? 1 : 0) + (budget.max_perplexity_increase ? 1 : 0) + (budget.target_bytes ? 1 : 0);
  if (given != 1) return invalid_argument("one budget wanted: --max-kl, --max-perplexity-increase or --target-bytes");
  return Searcher(units, runner, budget, on_round).run();
}

}  // namespace firstlight::gates
