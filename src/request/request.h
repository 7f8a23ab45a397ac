// SPDX-License-Identifier: Apache-2.0
// What goes into an engine and what comes out: token ids, sampling parameters, token events. The seam between serving
// and computing; text, HTTP and kernels are all elsewhere. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "request/embedding.h"

namespace firstlight::request {

// Applied in the order of the fields' groups: penalties, bias, temperature, top-k, top-p, min-p.
struct SamplingParams {
  double repetition_penalty =
      1;                        // > 0; logits of seen tokens (prompt and output) divided (positive) or multiplied by it
  double presence_penalty = 0;  // -2 to 2; taken off logits of tokens in the output
  double frequency_penalty = 0;  // -2 to 2; times the count in the output
  std::map<int32_t, double> logit_bias;
  double temperature = 1;        // 0: greedy, the lowest id among equals
  int64_t top_k = 0;             // 0: all
  double top_p = 1;              // (0, 1]
  double min_p = 0;              // [0, 1]: at least this share of the likeliest token's probability
  std::optional<uint64_t> seed;  // absent: a fresh one; given: the request's own stream, whatever shares the batch
  int num_logprobs = -1;         // -1: none; n: the chosen token's and the n likeliest, from the raw logits
};

// Errors: kInvalidArgument naming the field, its value and the range.
Status check(const SamplingParams& params, int64_t vocab_size);

// Which tokens may come next (grammars, tool calls). Belongs to one request and follows its accepted tokens, so that a
// preemption changes nothing. Asked once per step, before sampling.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  // Before the first apply(): the ids that end this request's output. They are never part of it.
  virtual void set_stop_tokens(std::span<const int32_t> ids) = 0;
  // Clears allowed[t] (of vocabulary size, preset to 1) for every token that may not follow. An error ends the request
  // with it: nothing may follow, or telling what may takes too long.
  virtual Status apply(std::span<uint8_t> allowed) = 0;
  virtual void accept(int32_t token) = 0;  // one that apply() left allowed, no stop token
  // Nothing may follow but an end: the request then ends as by a stop token.
  virtual bool is_over() const = 0;
};

struct Request {
  std::string id;
  std::vector<int32_t> prompt;  // at least one token
  int64_t max_tokens = 16;      // of output; cut to what the context leaves; 0: nothing but the prompt is computed
  SamplingParams sampling;
  std::vector<int32_t> stop_token_ids;  // end the output; the token itself is not part of it
  bool ignore_model_stops = false;      // do not stop at the model's own end tokens
  std::shared_ptr<TokenMask> mask;      // may be null
  int64_t priority = 0;                 // higher ones go first
  std::string client;                   // who asks: of equal priority, clients get equal shares
  std::string cache_salt;               // only requests with the same one share computed prompts
  bool score_prompt = false;            // log-probabilities of the prompt's tokens too; num_logprobs says how many
  std::optional<Pooling> embed;         // no output but the embedding of the prompt
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", …; "" for kNone

struct TokenLogprob {
  int32_t token = -1;
  double logprob = 0;
};

// A token and, where they were asked for, the likeliest ones in its place, likeliest first.
struct ScoredToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

// One step of one request. The last event of a request, and only it, has a finish reason.
struct TokenEvent {
  std::optional<int32_t> token;  // absent on an end without a token of its own (a stop token, a cancel, an error)
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top_logprobs;  // likeliest first
  FinishReason finish = FinishReason::kNone;
  std::optional<int32_t> stop_token;  // the id that ended the output
  int64_t cached_tokens = 0;          // of the prompt, taken from what was computed before; the same in every event
  int64_t admitted_ns = 0;            // when the request got its place among the running (monotonic); 0: never
  std::vector<float> embedding;       // of a request for one, as pooled: not cut, not normalised
  std::vector<ScoredToken>
      prompt_scores;            // in the first event of a request for them: of the prompt from its second token on
  int64_t drafted_tokens = 0;   // that were guessed ahead for the request so far,
  int64_t accepted_tokens = 0;  // and of these, that the model chose as well
  int64_t evicted_tokens = 0;   // of prompt and output so far, that full attention sees no more
  Status error;                 // kError: why
};

}  // namespace firstlight::request
