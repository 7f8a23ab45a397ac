// SPDX-License-Identifier: Apache-2.0
// index_scores' attributes decoded, and the choice of the highest scores; shared by its bodies.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel.h"
#include "ops/attention/index_scores.h"

namespace firstlight::kernels {

struct IndexScoresOptions final : Prepared {
  int key = 0;       // component index
  int64_t rate = 1;  // tokens per row
  int64_t top = 0;
  bool relu = true;
  bool per_head = false;
  int64_t block = 1;
  int64_t local = 0;
  int64_t first = 0;         // blocks
  int64_t within_block = 0;  // rows of a candidate; 0: all rows are
  ops::IndexScoresOperands at;

  int64_t visible_rows(int64_t position) const { return (position + 1) / rate; }
  // Rows or blocks that a query sees at least a part of, and the first of those that are named in any case.
  int64_t visible_units(int64_t position) const { return (visible_rows(position) + block - 1) / block; }
  int64_t first_local(int64_t position) const { return visible_units(position) - local; }
  // Named whatever its score.
  bool is_forced(int64_t unit, int64_t position) const { return unit < first || unit >= first_local(position); }
  int64_t candidate_of(int64_t row) const { return row / within_block; }
};

// The candidates that a query's group may choose from; empty without `within`.
inline std::span<const int32_t> index_candidates(const KernelCall& call, const IndexScoresOptions& options,
                                                 int64_t token, int64_t group) {
  if (options.at.within < 0) return {};
  const tensor::View& view = call.inputs[static_cast<size_t>(options.at.within)];
  const int64_t list = token * view.dim(1) + (view.dim(1) == 1 ? 0 : group);
  return {view.as<const int32_t>() + list * view.dim(2), static_cast<size_t>(view.dim(2))};
}

inline Result<std::unique_ptr<Prepared>> prepare_index_scores(const PrepareInput& input) {
  const ops::Attributes& attributes = input.signature.attributes;
  auto options = std::make_unique<IndexScoresOptions>();
  options->key = input.state->component_index(attributes.get_string("key"));
  FL_CHECK(options->key >= 0);
  options->rate = input.state->kind == ops::StateKind::kRateLog ? input.state->rate : 1;
  options->top = attributes.get_int("top");
  options->relu = attributes.get_bool("relu");
  options->per_head = attributes.get_bool("per_head");
  options->block = attributes.get_int("block");
  options->local = attributes.get_int("recent");
  options->first = attributes.get_int("first");
  options->within_block = attributes.get_int("within_block");
  options->at = ops::index_scores_operands(attributes, input.signature.operands.size());
  return std::unique_ptr<Prepared>(std::move(options));
}

template <typename Number>
struct IndexCandidate {
  Number score;
  int32_t unit;
};

// A score as it competes: NaN counts as infinite.
template <typename Number>
Number competing(Number score) {
  return std::isnan(score) ? std::numeric_limits<Number>::infinity() : score;
}

// Moves the `top` best to the front, the lower number first among equals, and drops the rest.
template <typename Number>
void keep_best(std::vector<IndexCandidate<Number>>& candidates, int64_t top) {
  if (static_cast<int64_t>(candidates.size()) <= top) return;
  const auto better = [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.unit < b.unit;
  };
  std::nth_element(candidates.begin(), candidates.begin() + top, candidates.end(), better);
  candidates.resize(static_cast<size_t>(top));
}

// The numbers of at most `top` candidates in ascending order, then -1.
template <typename Number>
void write_units(std::vector<IndexCandidate<Number>>& candidates, int64_t top, int32_t* out) {
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.unit < b.unit; });
  const auto count = static_cast<int64_t>(candidates.size());
  for (int64_t i = 0; i < top; ++i) out[i] = i < count ? candidates[static_cast<size_t>(i)].unit : -1;
}

}  // namespace firstlight::kernels
