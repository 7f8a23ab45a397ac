// SPDX-License-Identifier: Apache-2.0
// From a row of logits to a token. One Sampler per request: it owns the request's random stream and the counts of what
// it has seen, so that what shares the batch never changes a request's tokens.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "request/request.h"

namespace firstlight::engine {

struct Candidate {
  int32_t token;
  float logit;         // after penalties, bias and temperature
  double probability;  // among the candidates that are left
};

class Sampler {
 public:
  Sampler(const request::SamplingParams& params, std::span<const int32_t> prompt);

  // The next token for these raw logits [vocab]; the event carries its log-probabilities if they were asked for. Does
  // not count the token as seen yet: accept() does. Errors: those of check_logits; kInternal where no token
  // may follow.
  Result<request::TokenEvent> sample(std::span<const float> logits, request::TokenMask* mask);
  void accept(int32_t token);

  // The distribution sample() draws from: the candidates left, likeliest first (ties: lower id first).
  std::vector<Candidate> distribution(std::span<const float> logits, std::span<const uint8_t> allowed) const;

 private:
  bool counts() const;  // whether what comes next depends on how often tokens came
  bool is_plain_greedy() const;

  request::SamplingParams params_;
  std::unordered_map<int32_t, int64_t> output_counts_;
  std::unordered_map<int32_t, int64_t> seen_counts_;  // prompt and output
  std::mt19937_64 random_;
};

// Whether these are logits that a token can be chosen by. Errors: kInternal (a NaN, +infinity, or -infinity alone).
Status check_logits(std::span<const float> logits);

// What log of softmax(logits) takes off every logit, in float64.
double log_sum_exp(std::span<const float> logits);

// The log-probability of `token` by raw logits, and those of the `num_top` likeliest (ties: lower id first).
request::ScoredToken score_token(std::span<const float> logits, int32_t token, int num_top);

}  // namespace firstlight::engine
