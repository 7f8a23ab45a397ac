// SPDX-License-Identifier: Apache-2.0
// A request on its way through the engine: what it has so far, and where its state is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/drafter.h"
#include "engine/sampler.h"
#include "kv/state_cache.h"
#include "request/request.h"

namespace firstlight::engine {

using Ticket = uint64_t;
using EventSink = std::function<void(const request::TokenEvent&)>;
using Clock = std::chrono::steady_clock;

struct Sequence {
  Ticket ticket = 0;
  request::Request request;
  EventSink sink;
  Sampler sampler;
  Clock::time_point submitted;
  int64_t planned_length = 0;   // the most tokens it can reach
  std::string shares_with;      // sequences of the same name share computed prompts
  std::vector<int32_t> tokens;  // prompt, then output
  int64_t num_output = 0;
  int64_t num_computed = 0;   // tokens whose state is there, or in `saved`
  int64_t num_published = 0;  // of these, tokens that the prefix cache was told of
  int64_t num_charged = 0;    // prompt tokens that were counted: a second time they are not
  int64_t num_cached = 0;     // prompt tokens that were taken from another's state
  int64_t num_scored = 0;     // prompt tokens that have their log-probability or want none: then all of them
  std::vector<request::ScoredToken> prompt_scores;  // until the first event
  int64_t num_drafted = 0, num_accepted = 0;        // guessed ahead, and right
  kv::SequenceId state = -1;                        // -1: not among the running
  std::optional<kv::SavedState> saved;              // put out to swap space
  int64_t num_preemptions = 0;
  request::Pooler pooler;          // of a request for an embedding
  std::optional<Drafter> drafter;  // once it has guessed
  Pace pace;                       // of a predictor's guesses
  std::vector<int32_t> guess;      // a predictor's, at what comes behind the first `guess_length` of `tokens`
  int64_t guess_length = 0;
  int64_t num_followed = 0;    // tokens whose rows a predictor has seen
  std::vector<float> unseen;   // hidden states of the tokens behind, up to num_computed
  std::vector<int32_t> draft;  // tokens that the step under way computes behind `tokens`
  std::optional<kv::SnapshotId> before_draft;
  int64_t admitted_ns = 0;  // when it got a place first
  bool admitted = false;    // once at least
  bool finished = false;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t left() const { return length() - num_computed; }
  int64_t prompt_length() const { return static_cast<int64_t>(request.prompt.size()); }
  // What was computed for others is of no use: every row of the prompt is wanted.
  bool wants_rows() const { return request.embed || num_scored < prompt_length(); }
};

// Who keeps its place when there is not enough for both: the higher priority, then who came first.
inline bool ranks_before(const Sequence& a, const Sequence& b) {
  if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
  return a.ticket < b.ticket;
}

}  // namespace firstlight::engine
