// SPDX-License-Identifier: Apache-2.0
// One completion request from its prepared prompts to the end of its answer: sends a request per choice, turns token
// events into pieces, and writes them as a stream or gathers them. Heavy header: for .cc files only.
#pragma once

#include <vector>

#include "server/answer.h"
#include "server/choice.h"
#include "server/openai_api.h"
#include "server/openai_json.h"
#include "server/prompt.h"

namespace firstlight::server {

class Completion final : public Answer {
 public:
  using Answer::Answer;
  void start(const ApiRequest& request, std::vector<PreparedPrompt> prompts);

 private:
  struct Part {
    Choice choice;
    WholeChoice whole;
    int64_t cached_tokens = 0, drafted_tokens = 0, accepted_tokens = 0;
    int64_t last_token_ns = 0;
  };

  Status send_choice(const ApiRequest& request, const PreparedPrompt& prompt, int64_t choice_of_prompt);
  void on_event(size_t index, const request::TokenEvent& event) override;
  void count(RequestRecord& record) const override;
  void begin_stream();
  void deliver(size_t part_idx, ChoicePiece piece);
  void finish();
  void time_token(Part& part);
  Usage usage() const;

  AnswerHead head_;
  bool streams_ = false;
  std::vector<Part> parts_;
  std::string mask_field_;  // what asked for the constraint; "" where there is none
  int64_t choices_per_prompt_ = 1;
  int64_t num_prompt_tokens_ = 0;
  size_t num_open_ = 0;  // choices without a finish
};

// The seed of choice `i` of a request with this seed: the seed itself for the first, streams of their own for others.
uint64_t choice_seed(uint64_t seed, int64_t i);

}  // namespace firstlight::server
