// SPDX-License-Identifier: Apache-2.0
// Engine: log-probabilities of a prompt's tokens. Each but the first is scored by the row of the token in front of it,
// so all rows of the prompt are computed and none is taken from another's state; what is scored stays scored when the
// sequence is put out and begins again.
#include <algorithm>

#include "engine/engine.h"

namespace firstlight::engine {

// Of the next `num_tokens` tokens: rows that score a token of the prompt which has no score yet. They are the last ones
// of the piece, but for the prompt's last row, which predicts the output.
int64_t Engine::rows_to_score(const Sequence& sequence, int64_t num_tokens) {
  const int64_t begin = std::max(sequence.num_computed, sequence.num_scored - 1);
  const int64_t end = std::min(sequence.num_computed + num_tokens, sequence.prompt_length() - 1);
  return std::max<int64_t>(0, end - begin);
}

// False: the logits are no numbers, and the sequence has ended.
bool Engine::take_prompt_scores(Sequence& sequence, int64_t num_rows, const float* rows) {
  for (int64_t i = 0; i < num_rows; ++i) {
    const std::span<const float> logits(rows + i * vocab_size_, static_cast<size_t>(vocab_size_));
    if (Status sound = check_logits(logits); !sound.ok()) {
      tell_fault(sound);
      finish(sequence, {.finish = request::FinishReason::kError, .error = std::move(sound)});
      return false;
    }
    const int32_t token = sequence.request.prompt[static_cast<size_t>(sequence.num_scored++)];
    const int num_top = std::max(0, sequence.request.sampling.num_logprobs);
    sequence.prompt_scores.push_back(score_token(logits, token, num_top));
  }
  return true;
}

}  // namespace firstlight::engine
