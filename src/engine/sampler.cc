// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace firstlight::engine {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Keeps the k likeliest of `all`, in order.
void keep_top_k(std::vector<Candidate>& all, size_t k) {
  if (k < all.size()) {
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(), likelier);
    all.resize(k);
  } else {
    std::sort(all.begin(), all.end(), likelier);
  }
}

void normalise(std::vector<Candidate>& sorted) {
  double sum = 0;
  for (Candidate& one : sorted) sum += one.probability = std::exp(static_cast<double>(one.logit) - sorted[0].logit);
  for (Candidate& one : sorted) one.probability /= sum;
}

// The shortest front whose probabilities reach `top_p`.
void keep_top_p(std::vector<Candidate>& sorted, double top_p) {
  double sum = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i].probability;
    if (sum >= top_p) {
      sorted.resize(i + 1);
      return;
    }
  }
}

// The largest logit; NaN where one is NaN or +infinity. In lanes: a step of many sequences waits for this.
float top_logit(std::span<const float> logits) {
  constexpr size_t kLanes = 32;
  float tops[kLanes];
  std::fill_n(tops, kLanes, kMinusInfinity);
  int unsound[kLanes] = {};
  const auto visit = [&](size_t lane, float logit) {
    unsound[lane] |= !(logit <= std::numeric_limits<float>::max());
    tops[lane] = logit > tops[lane] ? logit : tops[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) visit(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) visit(0, logits[i]);
  if (std::any_of(unsound, unsound + kLanes, [](int lane) { return lane != 0; })) return std::nanf("");
  return *std::max_element(tops, tops + kLanes);
}

// Of sound logits.
int32_t lowest_argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), top_logit(logits)) - logits.begin());
}

uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

Status check_logits(std::span<const float> logits) {
  if (top_logit(logits) > kMinusInfinity) return ok_status();
  bool any = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == std::numeric_limits<float>::infinity()) {
      return internal_error("the model's logits hold " + std::string(std::isnan(logit) ? "NaN" : "infinity"));
    }
    any = any || logit != kMinusInfinity;
  }
  return any ? ok_status() : internal_error("the model's logits are -infinity for every token");
}

double log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return top + std::log(sum);
}

// One pass over the logits: of a prompt every token is scored, each over the whole vocabulary.
request::ScoredToken score_token(std::span<const float> logits, int32_t token, int num_top) {
  const double log_sum = log_sum_exp(logits);
  request::ScoredToken scored{.chosen = {token, logits[static_cast<size_t>(token)] - log_sum}, .top = {}};
  const size_t most = std::min(logits.size(), static_cast<size_t>(num_top));
  std::vector<Candidate> top;  // a heap, the least likely in front
  for (size_t i = 0; i < logits.size() && most > 0; ++i) {
    const Candidate one{static_cast<int32_t>(i), logits[i], 0};
    if (top.size() == most && !likelier(one, top.front())) continue;
    if (top.size() == most) {
      std::pop_heap(top.begin(), top.end(), likelier);
      top.pop_back();
    }
    top.push_back(one);
    std::push_heap(top.begin(), top.end(), likelier);
  }
  std::sort_heap(top.begin(), top.end(), likelier);
  for (const Candidate& one : top) scored.top.push_back({one.token, one.logit - log_sum});
  return scored;
}

Sampler::Sampler(const request::SamplingParams& params, std::span<const int32_t> prompt)
    : params_(params), random_(params.seed ? *params.seed : fresh_seed()) {
  if (!counts()) return;
  for (const int32_t token : prompt) ++seen_counts_[token];
}

void Sampler::accept(int32_t token) {
  if (!counts()) return;
  ++output_counts_[token];
  ++seen_counts_[token];
}

bool Sampler::counts() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

bool Sampler::is_plain_greedy() const { return params_.temperature == 0 && !counts() && params_.logit_bias.empty(); }

std::vector<Candidate> Sampler::distribution(std::span<const float> logits, std::span<const uint8_t> allowed) const {
  std::vector<Candidate> all;  // by token
  if (allowed.empty()) all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool out = (!allowed.empty() && allowed[i] == 0) || logits[i] == kMinusInfinity;
    if (!out) all.push_back({static_cast<int32_t>(i), logits[i], 0});
  }
  const auto at = [&](int32_t token) -> Candidate* {
    const auto found = std::ranges::lower_bound(all, token, {}, &Candidate::token);
    return found != all.end() && found->token == token ? &*found : nullptr;
  };
  if (params_.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(params_.repetition_penalty);
    for (const auto& [token, count] : seen_counts_) {
      if (Candidate* one = at(token)) one->logit = one->logit > 0 ? one->logit / penalty : one->logit * penalty;
    }
  }
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) {
    for (const auto& [token, count] : output_counts_) {
      const double off = params_.presence_penalty + params_.frequency_penalty * static_cast<double>(count);
      if (Candidate* one = at(token)) one->logit -= static_cast<float>(off);
    }
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    if (Candidate* one = at(token)) one->logit += static_cast<float>(bias);
  }
  std::erase_if(all, [](const Candidate& one) { return one.logit == kMinusInfinity; });
  if (all.empty()) return all;
  if (params_.temperature == 0) {
    std::vector<Candidate> best = {*std::min_element(all.begin(), all.end(), likelier)};
    best[0].probability = 1;
    return best;
  }
  // From the largest on: then a tiny temperature makes the others -infinity, and none infinity.
  const float top =
      std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit < b.logit; })->logit;
  for (Candidate& one : all) {
    one.logit = one.logit == top ? 0 : static_cast<float>((one.logit - top) / params_.temperature);
  }
  keep_top_k(all, params_.top_k > 0 ? static_cast<size_t>(params_.top_k) : all.size());
  normalise(all);
  if (params_.top_p < 1) {
    keep_top_p(all, params_.top_p);
    normalise(all);
  }
  if (params_.min_p > 0) {
    const double least = params_.min_p * all[0].probability;
    while (all.back().probability < least) all.pop_back();
    normalise(all);
  }
  return all;
}

Result<request::TokenEvent> Sampler::sample(std::span<const float> logits, request::TokenMask* mask) {
  FL_TRY(check_logits(logits));
  request::TokenEvent event;
  std::vector<uint8_t> allowed;
  if (mask != nullptr) {
    allowed.assign(logits.size(), 1);
    FL_TRY(mask->apply(allowed));
  }
  if (mask == nullptr && is_plain_greedy()) {
    event.token = lowest_argmax(logits);
  } else {
    const auto left = distribution(logits, allowed);
    if (left.empty()) return internal_error("no token may follow");
    const double draw = static_cast<double>(random_() >> 11) * 0x1p-53;  // [0, 1), 53 bits
    double sum = 0;
    event.token = left.back().token;
    for (const Candidate& one : left) {
      sum += one.probability;
      if (draw < sum) {
        event.token = one.token;
        break;
      }
    }
  }
  if (params_.num_logprobs >= 0) {
    request::ScoredToken scored = score_token(logits, *event.token, params_.num_logprobs);
    event.logprob = scored.chosen;
    event.top_logprobs = std::move(scored.top);
  }
  return event;
}

}  // namespace firstlight::engine
