// SPDX-License-Identifier: Apache-2.0
// Engine: tokens guessed ahead. A sequence's next token and a guess at those behind it are computed in one step; then
// each row is sampled as it would have been alone, with the request's own sampler, and the guess is good as far as it
// says the same. Nothing else changes: penalties, masks, stops, the random stream and log-probabilities see the tokens
// one after the other.
#include <algorithm>

#include "engine/engine.h"

namespace firstlight::engine {

// Guesses take what room is left, and no other's pages: where there are none they are left out.
void Engine::add_drafts(Step& step) {
  for (Step::Part& part : step.parts) {
    Sequence& sequence = *part.sequence;
    const auto prompt = static_cast<int64_t>(sequence.request.prompt.size());
    const int64_t most = std::min(
        {options_.draft_tokens, step.room, step.output_room, sequence.request.max_tokens - sequence.num_output - 1});
    if (most <= 0 || part.num_tokens != 1 || !part.wants_output || sequence.num_computed < prompt) continue;
    sequence.draft = guess_for(sequence, most, static_cast<int64_t>(step.parts.size()));
    if (sequence.draft.empty()) continue;
    bool fits = true;
    if (cache_.has_fixed_states()) {
      const auto taken = cache_.take_snapshot(sequence.state, sequence.num_computed);
      fits = taken.ok();
      if (fits) sequence.before_draft = *taken;
    }
    const auto drafted = static_cast<int64_t>(sequence.draft.size());
    if (!fits || !cache_.extend(sequence.state, sequence.length() + drafted, sequence.num_computed).ok()) {
      drop_snapshot(sequence);
      sequence.draft.clear();
      continue;
    }
    part.num_tokens += drafted;
    step.room -= drafted;
    step.output_room -= drafted;
  }
}

std::vector<int32_t> Engine::guess_for(Sequence& sequence, int64_t most, int64_t rows) {
  if (predictor_) {
    if (sequence.guess_length != sequence.length()) return {};
    std::vector<int32_t> guess = sequence.guess;
    guess.resize(std::min(guess.size(), static_cast<size_t>(most)));
    return guess;
  }
  if (!sequence.drafter) sequence.drafter.emplace();
  return sequence.drafter->propose(sequence.tokens, most, rows);
}

// The logits of the sequence's last token, then those of its draft.
void Engine::deliver_rows(Sequence& sequence, const float* rows) {
  const std::vector<int32_t> draft = std::exchange(sequence.draft, {});
  size_t accepted = 0;
  sequence.num_drafted += static_cast<int64_t>(draft.size());
  while (true) {
    deliver_token(sequence, {rows + static_cast<int64_t>(accepted) * vocab_size_, static_cast<size_t>(vocab_size_)});
    if (sequence.finished || accepted == draft.size() || sequence.tokens.back() != draft[accepted]) break;
    ++accepted;
    ++sequence.num_accepted;
  }
  if (draft.empty()) return;
  metrics_.drafted_tokens.add(static_cast<double>(draft.size()));
  metrics_.accepted_tokens.add(static_cast<double>(accepted));
  sequence.pace.tell(accepted, draft.size());
  if (sequence.drafter) sequence.drafter->tell(accepted, draft.size());
  if (!sequence.finished) settle_draft(sequence, accepted, draft.size());
}

// Takes the state back to what was right. Logs drop rows; fixed states go back to before the step, whose tokens are
// computed again with the next.
void Engine::settle_draft(Sequence& sequence, size_t accepted, size_t drafted) {
  const int64_t right = sequence.num_computed + static_cast<int64_t>(accepted);
  Status settled;
  if (accepted < drafted && sequence.before_draft) {
    settled = cache_.restore(sequence.state, *sequence.before_draft);
    sequence.num_computed = cache_.snapshot_length(*sequence.before_draft);
  } else {
    if (accepted < drafted) settled = cache_.truncate(sequence.state, right);
    sequence.num_computed = right;
  }
  drop_snapshot(sequence);
  if (!settled.ok()) finish(sequence, {.finish = request::FinishReason::kError, .error = std::move(settled)});
}

void Engine::drop_snapshot(Sequence& sequence) {
  if (sequence.before_draft) cache_.drop_snapshot(*sequence.before_draft);
  sequence.before_draft.reset();
}

}  // namespace firstlight::engine
