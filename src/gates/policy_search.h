// SPDX-License-Identifier: Apache-2.0
// From how sensitive each unit is to which format each gets: the cheapest mixture within a budget, chosen on the
// effects of single units and then judged by a run of the whole, which decides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gates/sensitivity.h"

namespace firstlight::gates {

// One of them.
struct PolicyBudget {
  std::optional<double> max_kl;                   // mean over rows, in nats
  std::optional<double> max_perplexity_increase;  // of the calibration tokens', as a share: 0.01 is 1 %
  std::optional<int64_t> target_bytes;            // of the whole checkpoint's tensors, at most
};

struct PolicyProposal {
  adapt::QuantPolicy policy;  // a rule per unit, those that stay last
  std::vector<int> chosen;    // per unit: index of its format; -1: as it is
  double predicted_kl = 0;    // sum of the units' effects
  Variant variant;            // of the whole, measured
  int rounds = 0;             // of choosing and measuring
  bool within_budget = false;
};

// The units' formats with the least sum of effects that fits into `bytes`, and those with the least bytes whose effects
// sum up to `kl` at most: greedily along each unit's lower convex hull of (bytes, effect). `other_bytes`: of what is in
// no unit. Errors: kInvalidArgument where nothing fits into the bytes (with the least that is possible).
Result<std::vector<int>> choose_for_bytes(const std::vector<Unit>& units, int64_t other_bytes, int64_t bytes);
std::vector<int> choose_for_kl(const std::vector<Unit>& units, double kl);

adapt::QuantPolicy policy_of(const std::vector<Unit>& units, const std::vector<int>& chosen);

// Chooses, measures the whole, and where that misses the budget (effects of many units are no plain sum) chooses again
// for a smaller one; the smallest checkpoint that was measured within the budget is returned. Errors: those of the
// runs; kInvalidArgument for a budget that nothing meets but the model as it is.
Result<PolicyProposal> search_policy(const std::vector<Unit>& units, VariantRunner& runner, const PolicyBudget& budget,
                                     const std::function<void(const PolicyProposal&)>& on_round = {});

}  // namespace firstlight::gates
