// SPDX-License-Identifier: Apache-2.0
#include "engine/predictor.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace firstlight::engine {

Predictor::Predictor(runtime::Executor& head, size_t num_own) : head_(head), num_own_(num_own) {
  for (const auto& output : head.plan().outputs) {
    const int64_t width = head.plan().buffer(output.buffer).type.shape.back().factor;
    (output.name == "logits" ? vocabulary_ : width_) = width;
  }
  FL_CHECK(width_ > 0 && vocabulary_ > 0 && !head.input("hidden").empty());
}

Status Predictor::run(std::span<Part> parts, kv::StateCache& cache) {
  std::vector<Piece> pieces;
  int64_t room = head_.max_batch_tokens(), guesses = head_.max_batch_outputs();
  const auto flush = [&]() -> Status {
    if (pieces.empty()) return ok_status();
    room = head_.max_batch_tokens();
    guesses = head_.max_batch_outputs();
    return run_step(std::exchange(pieces, {}), cache);
  };
  for (Part& part : parts) {
    const auto rows = static_cast<int64_t>(part.tokens.size());
    for (int64_t at = 0; at < rows;) {
      if (room == 0 || guesses == 0 || static_cast<int64_t>(pieces.size()) == head_.max_batch_sequences()) {
        FL_TRY(flush());
      }
      const int64_t count = std::min(rows - at, room);
      pieces.push_back({&part, at, count});
      at += count;
      room -= count;
      if (at < rows) FL_TRY(flush());  // one piece of a sequence per step
      if (at == rows && part.guesses) --guesses;
    }
  }
  return flush();
}

Status Predictor::run_step(std::span<const Piece> pieces, kv::StateCache& cache) {
  std::vector<int32_t> tokens, positions, output_rows;
  std::vector<plan::SequenceSpan> spans;
  std::vector<kv::SequenceId> states;
  auto* hidden = reinterpret_cast<float*>(head_.input("hidden").data());
  for (const auto& [part, start, count] : pieces) {
    spans.push_back({.first_row = static_cast<int64_t>(tokens.size()),
                     .num_tokens = count,
                     .start_position = part->first + start,
                     .planned_length = part->planned_length});
    states.push_back(part->state);
    const float* rows = part->hidden.data() + start * width_;
    hidden = std::copy(rows, rows + count * width_, hidden);
    for (int64_t i = start; i < start + count; ++i) {
      tokens.push_back(part->tokens[static_cast<size_t>(i)]);
      positions.push_back(static_cast<int32_t>(part->first + i));
    }
    const bool ends = start + count == static_cast<int64_t>(part->tokens.size());
    if (part->guesses && ends) output_rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
  }
  FL_TRY(head_.run({.tokens = tokens, .positions = positions, .output_rows = output_rows, .sequences = spans},
                   cache.views(states).subspan(num_own_)));
  size_t row = 0;
  for (const auto& [part, start, count] : pieces) {
    const bool ends = start + count == static_cast<int64_t>(part->tokens.size());
    if (part->guesses && ends) take_guess(*part, row++);
  }
  return ok_status();
}

void Predictor::take_guess(Part& part, size_t row) const {
  const auto place = static_cast<int64_t>(row);
  const float* logits = head_.output("logits").as<float>() + place * vocabulary_;
  const float* best = std::max_element(logits, logits + vocabulary_);
  part.guess = std::isfinite(*best) ? static_cast<int32_t>(best - logits) : -1;
  const float* hidden = head_.output("hidden").as<float>() + place * width_;
  part.next_hidden.assign(hidden, hidden + width_);
}

}  // namespace firstlight::engine
