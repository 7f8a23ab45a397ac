// SPDX-License-Identifier: Apache-2.0
#include "gates/horizons.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

std::vector<std::pair<std::string, int64_t>> horizons_of(const std::string& name) {
  const auto model = adapt::bring_up_golden(adapt::quick_options(), name);
  std::vector<std::pair<std::string, int64_t>> out;
  if (model == nullptr) return out;
  for (const Horizon& horizon : find_horizons(model->model.graph, model->executor->plan()))
    out.emplace_back(horizon.what, horizon.length);
  return out;
}

using Wanted = std::vector<std::pair<std::string, int64_t>>;

TEST(Horizons, AreWhatTheModelHas) {
  EXPECT_EQ(horizons_of("llama"), (Wanted{{"run of 16 tokens", 16}}));
  EXPECT_EQ(horizons_of("gemma2"), (Wanted{{"window of 8 tokens", 8}, {"run of 16 tokens", 16}}));
  EXPECT_EQ(horizons_of("llama4"), (Wanted{{"attention in chunks of 8 tokens", 8},
                                           {"window of 8 tokens", 8},
                                           {"run of 16 tokens", 16},
                                           {"rope's original length of 64 tokens", 64}}));
  const auto mamba = horizons_of("mamba2");
  EXPECT_EQ(
      std::count(mamba.begin(), mamba.end(), std::pair<std::string, int64_t>("recurrence in chunks of 32 tokens", 32)),
      1);
  const auto yarn = horizons_of("llama_yarn");
  const auto is_rope = [](const auto& entry) { return entry.first.starts_with("rope's original length of "); };
  EXPECT_EQ(std::count_if(yarn.begin(), yarn.end(), is_rope), 1);
}

}  // namespace
}  // namespace firstlight::gates
