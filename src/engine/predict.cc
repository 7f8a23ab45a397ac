// SPDX-License-Identifier: Apache-2.0
// Engine: guesses of the model's own head. After each step it sees the rows that the step computed and guesses what
// comes behind the token that was sampled, then what comes behind its guess. Its state lies beside the model's in the
// same pages' tables and goes where that goes: shared, swapped, taken back. A row depends on the token behind it, so
// the last one of a shared block, or of a copied prompt, may be of another continuation: that makes a guess worse, no
// more.
#include <algorithm>

#include "engine/engine.h"

namespace firstlight::engine {
namespace {

constexpr int64_t kMostUnseen = 32;  // rows that wait while no guess is wanted: together they cost as few

}  // namespace

// Rows [first_row, first_row + count) of the step are those of the sequence's last `count` computed tokens.
void Engine::keep_hidden(Sequence& sequence, int64_t first_row, int64_t count) {
  if (!predictor_ || sequence.finished || sequence.request.embed || count <= 0) return;
  const float* rows = executor_.output("hidden").as<float>() + first_row * hidden_width_;
  sequence.unseen.insert(sequence.unseen.end(), rows, rows + count * hidden_width_);
}

// How many tokens to guess behind the sequence's last. More than one are rows that are dropped again, which fixed
// states can not.
int64_t Engine::depth_for(Sequence& sequence, int64_t rows) {
  const auto prompt = static_cast<int64_t>(sequence.request.prompt.size());
  if (sequence.left() != 1 || sequence.num_computed < prompt || sequence.guess_length == sequence.length()) return 0;
  const int64_t most = std::min(options_.draft_tokens, sequence.request.max_tokens - sequence.num_output - 1);
  return sequence.pace.depth(cache_.has_fixed_states() ? std::min<int64_t>(most, 1) : most, rows);
}

// Windows give pages back as the model computes, so there nothing waits.
void Engine::predict() {
  const int64_t most_unseen = cache_.has_windows() ? 1 : kMostUnseen;
  const auto rows = static_cast<int64_t>(running_.size());
  std::vector<Sequence*> sequences;
  std::vector<int64_t> depths;
  for (const auto& sequence : running_) {
    if (sequence->finished || sequence->unseen.empty()) continue;
    const int64_t depth = depth_for(*sequence, rows);
    const int64_t unseen = sequence->num_computed - sequence->num_followed;
    const bool of_prompt = sequence->num_followed < static_cast<int64_t>(sequence->request.prompt.size());
    if (depth == 0 && unseen < most_unseen && !of_prompt) continue;
    sequences.push_back(sequence.get());
    depths.push_back(depth);
  }
  if (sequences.empty()) return;
  if (const Status status = predict_for(sequences, depths); !status.ok()) {
    tell_fault(status);
    predictor_ = nullptr;  // it is not asked again
    return;
  }
  for (Sequence* sequence : sequences) publish(*sequence);
}

Status Engine::predict_for(std::span<Sequence* const> sequences, std::span<const int64_t> depths) {
  std::vector<Predictor::Part> parts;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = *sequences[i];
    const auto first = static_cast<size_t>(sequence.num_followed);
    const auto count = static_cast<size_t>(sequence.num_computed) - first;
    parts.push_back({.state = sequence.state,
                     .first = sequence.num_followed,
                     .planned_length = sequence.planned_length,
                     .tokens = std::span(sequence.tokens).subspan(first + 1, count),
                     .hidden = sequence.unseen,
                     .guesses = depths[i] > 0,
                     .next_hidden = {}});
  }
  FL_TRY(predictor_->run(parts, cache_));
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& sequence = *sequences[i];
    sequence.num_followed = sequence.num_computed;
    sequence.unseen = {};
    if (depths[i] == 0) continue;
    sequence.guess.clear();
    if (parts[i].guess >= 0) sequence.guess.push_back(parts[i].guess);
    sequence.guess_length = sequence.length();
  }
  return go_on_guessing(sequences, depths, parts);
}

// Guess after guess, all sequences together: the head goes on from its own hidden state, on rows that are dropped then.
Status Engine::go_on_guessing(std::span<Sequence* const> sequences, std::span<const int64_t> depths,
                              std::vector<Predictor::Part>& parts) {
  Status status;
  for (int64_t depth = 1; status.ok(); ++depth) {
    std::vector<Predictor::Part> further;
    std::vector<size_t> whose;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& sequence = *sequences[i];
      const int64_t row = sequence.num_computed + depth - 1;
      if (depths[i] <= depth || static_cast<int64_t>(sequence.guess.size()) != depth) continue;
      if (!cache_.extend(sequence.state, row + 1, sequence.num_computed).ok()) continue;
      further.push_back({.state = sequence.state,
                         .first = row,
                         .planned_length = sequence.planned_length,
                         .tokens = {&sequence.guess.back(), 1},
                         .hidden = parts[i].next_hidden,
                         .guesses = true,
                         .next_hidden = {}});
      whose.push_back(i);
    }
    if (further.empty()) break;
    status = predictor_->run(further, cache_);
    for (size_t j = 0; status.ok() && j < further.size(); ++j) {
      Sequence& sequence = *sequences[whose[j]];
      if (further[j].guess >= 0) sequence.guess.push_back(further[j].guess);
      parts[whose[j]].next_hidden = std::move(further[j].next_hidden);
    }
  }
  for (const Sequence* sequence : sequences) {
    if (cache_.length(sequence->state) == sequence->num_computed) continue;
    const Status cut = cache_.truncate(sequence->state, sequence->num_computed);
    if (status.ok()) status = cut;
  }
  return status;
}

}  // namespace firstlight::engine
