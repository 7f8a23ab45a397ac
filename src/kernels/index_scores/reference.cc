// SPDX-License-Identifier: Apache-2.0
// The reference index_scores: per query all scores in float64, then the highest.
#include "kernels/index_scores/options.h"

#include "kernels/bodies.h"
#include "kernels/common/dot.h"
#include "kernels/common/pages.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

using Candidates = std::vector<IndexCandidate<double>>;

// Sum over heads first_head .. end_head - 1 of the weighted products with one key.
double score_of(const KernelCall& call, const IndexScoresOptions& options, int64_t token, int64_t first_head,
                int64_t end_head, const float* key, int64_t width) {
  const int64_t heads = call.inputs[0].dim(1);
  const tensor::View weights = options.at.weights >= 0 ? call.inputs[2] : tensor::View();
  double sum = 0;
  for (int64_t h = first_head; h < end_head; ++h) {
    double product = dot_f64(call.inputs[0].as<const float>() + (token * heads + h) * width, key, width);
    if (options.relu && product < 0) product = 0;
    sum += product * (weights.present() ? static_cast<double>(weights.as<const float>()[token * heads + h]) : 1.0);
  }
  return sum;
}

void select_one(const KernelCall& call, const IndexScoresOptions& options, size_t s, int64_t token, int64_t group,
                Candidates& candidates, std::vector<float>& row) {
  const plan::SequenceSpan& sequence = call.batch->sequences[s];
  const plan::StateComponentView& keys = call.state->components[static_cast<size_t>(options.key)];
  const int64_t heads = call.inputs[0].dim(1);
  const int64_t position = sequence.start_position + token;
  const int64_t first_head = options.per_head ? group : 0;
  const int64_t end_head = options.per_head ? group + 1 : heads;
  const std::span<const int32_t> within = index_candidates(call, options, sequence.first_row + token, group);
  const auto is_candidate = [&](int64_t j) {
    return options.is_forced(j / options.block, position) || options.within_block == 0 ||
           std::find(within.begin(), within.end(), options.candidate_of(j)) != within.end();
  };
  candidates.clear();
  row.resize(static_cast<size_t>(keys.width));
  for (int64_t j = 0; j < options.visible_rows(position); ++j) {
    if (!is_candidate(j)) continue;
    const std::byte* at = state_row(*call.state, keys, s, j, 0);
    FL_CHECK(tensor::decode_to_f32(keys.dtype, {at, static_cast<size_t>(state_row_bytes(keys))}, row).ok());
    const double score =
        competing(score_of(call, options, sequence.first_row + token, first_head, end_head, row.data(), keys.width));
    if (j % options.block == 0) candidates.push_back({score, static_cast<int32_t>(j / options.block)});
    candidates.back().score = std::max(candidates.back().score, score);
  }
  for (auto& candidate : candidates) {
    if (options.is_forced(candidate.unit, position)) candidate.score = std::numeric_limits<double>::infinity();
  }
  keep_best(candidates, options.top);
  const int64_t groups = call.outputs[0].dim(1);
  write_units(candidates, options.top,
              call.outputs[0].as<int32_t>() + ((sequence.first_row + token) * groups + group) * options.top);
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const IndexScoresOptions&>(*call.prepared);
  const int64_t groups = call.outputs[0].dim(1);
  Candidates candidates;
  std::vector<float> row;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const int64_t total = call.batch->sequences[s].num_tokens * groups;
    for (int64_t i = worker.index(); i < total; i += worker.count()) {
      select_one(call, options, s, i / groups, i % groups, candidates, row);
    }
  }
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) { return prepare_index_scores(input); }

}  // namespace

KernelBody index_scores_reference() {
  KernelBody body;
  body.symbol = "index_scores_f32_i32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
