// SPDX-License-Identifier: Apache-2.0
// Engine: prompts that several requests have in common while one of them computes it. The others wait for it: twins,
// whose prompt is the same to its end (the choices of one request, most of all), take its state with the logits it ends
// in; others go on from the last block that is theirs too.
#include <algorithm>

#include "engine/engine.h"

namespace firstlight::engine {
namespace {

// Whether the other's log-probabilities of the prompt are those that it wants, or it wants none.
bool has_scores_for(const Sequence& sequence, const Sequence& next) {
  return !next.request.score_prompt || (sequence.request.score_prompt &&
                                        sequence.request.sampling.num_logprobs == next.request.sampling.num_logprobs);
}

bool is_twin(const Sequence& next, const Sequence& sequence) {
  return !next.admitted && !next.request.embed && next.shares_with == sequence.shares_with &&
         next.request.prompt == sequence.request.prompt && has_scores_for(sequence, next);
}

}  // namespace

// Whether somebody who goes first anyway computes now what it begins with. That ends: with the prompt, with the blocks
// in common, or with the other's place.
bool Engine::is_awaiting(const Sequence& next) const {
  if (!options_.reuse_prefixes || next.admitted || next.request.embed) return false;
  const int64_t block = cache_.block_tokens();
  return std::any_of(running_.begin(), running_.end(), [&](const auto& one) {
    const auto& prompt = one->request.prompt;
    if (one->finished || one->request.embed || one->num_computed >= static_cast<int64_t>(prompt.size())) return false;
    if (!ranks_before(*one, next) || one->shares_with != next.shares_with) return false;
    const auto [end, other] = std::mismatch(prompt.begin(), prompt.end(), next.tokens.begin(), next.tokens.end());
    if (!has_scores_for(*one, next)) return false;
    if (end == prompt.end() && other == next.tokens.end()) return true;
    if (next.wants_rows()) return false;
    const int64_t common = std::min<int64_t>(end - prompt.begin(), next.length() - 1) / block * block;
    return prefixes_ && one->num_computed < common;
  });
}

// The sequence has come to the end of its prompt, and has sampled nothing yet. Twins that are next in turn and have
// room get a place and its state.
std::vector<Sequence*> Engine::give_prompt_to_twins(const Sequence& sequence) {
  std::vector<Sequence*> twins;
  if (!options_.reuse_prefixes || sequence.num_output > 0) return twins;
  const auto now = Clock::now();
  const auto is_held = [this](const Sequence& next) { return is_awaiting(next); };
  while (static_cast<int64_t>(running_.size()) < options_.max_sequences) {
    Sequence* next = waiting_.next(now, is_held);
    if (next == nullptr || !is_twin(*next, sequence)) break;
    next->state = cache_.add_sequence();
    if (!cache_.fork(next->state, sequence.state).ok() || !state_fits(*next)) {
      release_state(*next);
      break;
    }
    next->num_computed = next->num_cached = next->num_charged = next->length();
    next->num_followed = sequence.num_followed;
    next->unseen = sequence.unseen;
    metrics_.queried_tokens.add(static_cast<double>(next->length()));
    metrics_.cached_tokens.add(static_cast<double>(next->length()));
    if (next->request.score_prompt) next->prompt_scores = sequence.prompt_scores;
    next->num_scored = next->length();
    give_place(*next, now);
    twins.push_back(next);
  }
  return twins;
}

}  // namespace firstlight::engine
