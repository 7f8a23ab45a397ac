// SPDX-License-Identifier: Apache-2.0
// Engine: who has a place, who is put out, and what a step computes.
#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"

namespace firstlight::engine {

// Whether the sequence's state fits: of its planned length beside what the others may still need, or of what it has.
bool Engine::state_fits(const Sequence& next) const {
  const int64_t capacity = options_.state_capacity_bytes;
  if (capacity <= 0) return true;
  if (options_.admission == Admission::kReserved) {
    int64_t needed = cache_.bytes_for_length(next.planned_length);
    for (const auto& other : running_) needed += cache_.bytes_for_length(other->planned_length);
    return needed <= capacity;
  }
  // A page for each of the others besides, or they would be put out for it in a moment.
  const int64_t has = next.state >= 0 ? cache_.length(next.state) : 0;
  const int64_t wanted = cache_.bytes_for_length(next.length() + 1) - cache_.bytes_for_length(has);
  const int64_t spare = static_cast<int64_t>(running_.size()) * cache_.bytes_for_length(1);
  const int64_t reusable = prefixes_ ? prefixes_->reclaimable_bytes() : 0;
  return running_.empty() || wanted + spare <= capacity - cache_.used_bytes() + reusable;
}

// Gives it pages: those that were swapped out, or of another's beginning.
bool Engine::take_state(Sequence& next) {
  next.state = cache_.add_sequence();
  bool fits = true;
  if (next.saved) {
    fits = state_fits(next) && cache_.load(next.state, *next.saved, *swap_).ok();
    if (fits) next.saved.reset();
  } else {
    next.num_computed =
        prefixes_ && !next.wants_rows() ? prefixes_->adopt(next.state, next.shares_with, next.tokens) : 0;
    next.num_followed = next.num_computed;
    fits = state_fits(next);
    if (fits && !next.admitted) {
      next.num_cached = next.num_charged = next.num_computed;
      metrics_.cached_tokens.add(static_cast<double>(next.num_cached));
      if (prefixes_ && !next.wants_rows()) metrics_.queried_tokens.add(static_cast<double>(next.request.prompt.size()));
    }
  }
  next.num_published = next.num_computed;
  if (!fits) release_state(next);
  return fits;
}

void Engine::release_state(Sequence& sequence) {
  if (sequence.state < 0) return;
  drop_snapshot(sequence);
  if (prefixes_) prefixes_->forget(sequence.state);
  cache_.remove_sequence(sequence.state);
  sequence.state = -1;
}

// Among the running it waits again: with its pages in swap space, or to be computed again.
void Engine::put_out(Sequence& sequence) {
  auto saved = swap_ ? cache_.save(sequence.state, *swap_) : unavailable("");
  if (saved.ok()) {
    sequence.saved = std::move(*saved);
    metrics_.swapped_out.add();
  } else {
    sequence.num_computed = sequence.num_followed = 0;
    sequence.unseen = {};
    metrics_.recomputed.add();
  }
  release_state(sequence);
  ++sequence.num_preemptions;
  const auto place =
      std::find_if(running_.begin(), running_.end(), [&](const auto& other) { return other.get() == &sequence; });
  waiting_.push(std::move(*place));
  running_.erase(place);
  ++num_waiting_;
}

// Whoever ranks last may have to leave for one of a higher priority.
bool Engine::has_place_for(const Sequence& next) {
  if (static_cast<int64_t>(running_.size()) < options_.max_sequences) return true;
  if (options_.admission == Admission::kReserved) return false;
  return running_.back()->request.priority < next.request.priority;
}

void Engine::admit() {
  const auto now = Clock::now();
  const auto is_held = [this](const Sequence& next) { return is_awaiting(next); };
  while (Sequence* next = waiting_.next(now, is_held)) {
    if (next == blocked_ || !has_place_for(*next)) return;
    while (!take_state(*next)) {
      const bool may_put_out = options_.admission == Admission::kOnDemand && !running_.empty() &&
                               running_.back()->request.priority < next->request.priority;
      if (!may_put_out) {
        blocked_ = next;
        return;
      }
      put_out(*running_.back());
    }
    if (static_cast<int64_t>(running_.size()) >= options_.max_sequences) put_out(*running_.back());
    give_place(*next, now);
  }
}

// Among the running, by rank.
void Engine::give_place(Sequence& next, Clock::time_point now) {
  if (!next.admitted) {
    metrics_.queue_seconds.observe(std::chrono::duration<double>(now - next.submitted).count());
    next.admitted_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  }
  next.admitted = true;
  auto place =
      std::find_if(running_.begin(), running_.end(), [&](const auto& other) { return ranks_before(next, *other); });
  running_.insert(place, waiting_.take(next));
  --num_waiting_;
}

// Pages up to `length`. Who ranks last gives way, the sequence itself if that is it.
bool Engine::make_room(Step& step, Sequence& sequence, int64_t length) {
  while (true) {
    Status extended = cache_.extend(sequence.state, length);
    if (extended.ok()) return true;
    Sequence& last = *running_.back();
    if (options_.admission == Admission::kReserved || running_.size() == 1) {
      finish(sequence, {.finish = request::FinishReason::kError, .error = std::move(extended)});
      return false;
    }
    const bool itself = &last == &sequence;
    const auto part = std::find_if(step.parts.begin(), step.parts.end(),
                                   [&](const Step::Part& other) { return other.sequence == &last; });
    if (part != step.parts.end()) {
      step.room += part->num_tokens;
      step.output_room += part->num_rows();
      step.parts.erase(part);
    }
    put_out(last);
    if (itself) return false;
  }
}

bool Engine::add_part(Step& step, Sequence& sequence, int64_t num_tokens) {
  const int64_t length = sequence.num_computed + num_tokens;
  if (!make_room(step, sequence, length)) return false;
  const bool wants_output = length == sequence.length() && !sequence.request.embed;
  step.parts.push_back({&sequence, num_tokens, wants_output, rows_to_score(sequence, num_tokens)});
  step.room -= num_tokens;
  step.output_room -= step.parts.back().num_rows();
  return true;
}

// What of a prompt goes into a step: all that fits; of one that is scored, what there are rows of output for, with one
// left to the prompts behind it. Where a later sequence can only go on from the end of a step, it ends where blocks do.
int64_t Engine::piece_of(const Sequence& sequence, const Step& step) const {
  int64_t most = std::min(sequence.left(), step.room);
  if (sequence.num_scored < sequence.prompt_length()) {
    const int64_t known = std::max<int64_t>(0, sequence.num_scored - 1 - sequence.num_computed);
    most = std::min(most, known + std::max<int64_t>(1, step.output_room - 1));
  }
  if (!prefixes_ || !cache_.has_fixed_states()) return most;
  const int64_t block = cache_.block_tokens();
  const int64_t end = (sequence.num_computed + most) / block * block;
  return end > sequence.num_computed ? end - sequence.num_computed : most;
}

// Every sequence that has its prompt behind it computes one token; the room that is left in the batch goes to the first
// prompts, in pieces, and what they leave to guesses. Prompts that must stay whole go first: behind the others one
// might never find the room.
void Engine::schedule(Step& step) {
  step.clear();
  step.room = options_.step_tokens;
  step.output_room = executor_.max_batch_outputs();
  step.most_parts = static_cast<size_t>(executor_.max_batch_sequences());
  // Those that rank last may leave on the way, so places are looked up anew each time.
  const auto each = [&](const auto& part_of) {
    for (size_t i = 0; i < running_.size() && step.has_room(); ++i) {
      Sequence& sequence = *running_[i];
      const int64_t num_tokens = sequence.finished ? 0 : part_of(sequence);
      if (num_tokens > 0) add_part(step, sequence, num_tokens);
    }
  };
  if (whole_prompts_) {
    each([&](const Sequence& s) { return s.left() > 1 && s.left() <= step.room ? s.left() : 0; });
  }
  each([](const Sequence& s) { return s.left() == 1 ? 1 : 0; });
  if (!whole_prompts_) each([&](const Sequence& s) { return s.left() > 1 ? piece_of(s, step) : 0; });
  add_drafts(step);
  fill(step);
}

void Engine::fill(Step& step) {
  const auto num_prompts = std::count_if(step.parts.begin(), step.parts.end(), [](const Step::Part& part) {
    return part.sequence->num_computed < static_cast<int64_t>(part.sequence->request.prompt.size());
  });
  step.kind = num_prompts == 0 ? StepKind::kDecode : StepKind::kMixed;
  if (num_prompts == static_cast<int64_t>(step.parts.size())) step.kind = StepKind::kPrefill;
  for (const Step::Part& part : step.parts) {
    const Sequence& sequence = *part.sequence;
    step.spans.push_back({.first_row = static_cast<int64_t>(step.tokens.size()),
                          .num_tokens = part.num_tokens,
                          .start_position = sequence.num_computed,
                          .planned_length = sequence.planned_length});
    step.states.push_back(sequence.state);
    for (int64_t i = 0; i < part.num_tokens; ++i) {
      const int64_t at = sequence.num_computed + i;
      step.tokens.push_back(at < sequence.length() ? sequence.tokens[static_cast<size_t>(at)]
                                                   : sequence.draft[static_cast<size_t>(at - sequence.length())]);
      step.positions.push_back(static_cast<int32_t>(sequence.num_computed + i));
    }
    if (part.num_rows() == 0) continue;
    // The last rows; of a scored piece that ends inside the prompt too, since each scores the token behind it.
    const auto end = static_cast<int32_t>(step.tokens.size());
    const auto count = static_cast<int32_t>(part.num_rows()) + static_cast<int32_t>(sequence.draft.size());
    for (auto r = end - count; r < end; ++r) step.output_rows.push_back(r);
  }
}

}  // namespace firstlight::engine
