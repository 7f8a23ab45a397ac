// SPDX-License-Identifier: Apache-2.0
// One prompt through the engine: what `run` and the last gate of `adapt` do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/session.h"
#include "request/request.h"
#include "server/choice.h"
#include "text/segment.h"

namespace firstlight::cli {

struct GenerationResult {
  std::string text;             // up to a stop string
  std::string reasoning;        // thoughts, where the answer is read by a chat format
  std::vector<int32_t> tokens;  // all that were generated
  int64_t prompt_tokens = 0;
  std::string finish_reason;
  std::vector<request::TokenEvent> events;
  int64_t drafted_tokens = 0, accepted_tokens = 0;  // guessed ahead, and of these right
  double ttft_s = 0;
  double prompt_tps = 0;
  double decode_tps = 0;  // 0 with fewer than two tokens
};

struct GenerationOptions {
  int64_t context = 0;  // tokens of prompt and output together; 0: the model's, or as much as fits, which is said then
  int64_t draft_tokens = 0;                            // as engine::EngineOptions has it
  std::shared_ptr<const server::ChatReading> reading;  // of a chat's answer; null: all of it is text
};

// `show` gets text and thoughts piece by piece, and says whether anybody reads on: generation ends where nobody does.
// May be null. Without a tokenizer the text stays empty.
using ShowPiece = std::function<bool(const server::ChoicePiece&)>;
Result<GenerationResult> generate(Session& session, request::Request request,
                                  const std::vector<std::string>& stop_strings, const ShowPiece& show,
                                  const GenerationOptions& options = {});

// The prompt of a chat with these messages, by the model's template or its spec; without either, or `raw`, the user's
// text as it is, with what the tokenizer adds. Errors: no tokenizer, variables that are no JSON object, or the
// renderer's. `trusted_end`: the end of a chat's text, where it is the template's own.
struct PromptText {
  std::string system, user;
  std::string variables;  // a JSON object; empty: none
  bool raw = false;
};
Result<std::vector<int32_t>> encode_prompt(const adapt::TextAssets& assets, const PromptText& prompt,
                                           std::string* trusted_end = nullptr);

}  // namespace firstlight::cli
