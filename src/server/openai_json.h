// SPDX-License-Identifier: Apache-2.0
// Answers in OpenAI's form: whole bodies and the chunks of a stream, as text. Knows what an answer looks like and
// nothing of how it comes to be.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/choice.h"

namespace firstlight::server {

// What all chunks of one answer have in common.
struct AnswerHead {
  bool chat = true;
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::string model;
  int64_t created_unix_s = 0;
  bool logprobs = false;       // the answer carries them
  bool include_usage = false;  // a usage chunk will end the stream
};

struct Usage {
  int64_t prompt_tokens = 0;      // each prompt once, whatever n is
  int64_t cached_tokens = 0;      // of these, taken from what was computed before
  int64_t completion_tokens = 0;  // of all choices; stop tokens are not counted
  int64_t reasoning_tokens = 0;   // of these, in thoughts
  int64_t drafted_tokens = 0;     // guessed ahead of the model,
  int64_t accepted_tokens = 0;    // and chosen by it as well
};

struct WholeChoice {
  std::string text, reasoning;
  std::vector<CallPiece> calls;  // whole
  int64_t evicted_tokens = 0;    // of prompt and answer, that attention saw no more at the end; told where it is not 0
  std::vector<LogprobEntry> logprobs;
  request::FinishReason finish = request::FinishReason::kNone;
  bool has_calls = false;  // as the piece that ended it
};

std::string make_answer_id(bool chat);  // random

std::string whole_json(const AnswerHead& head, std::span<const WholeChoice> choices, const Usage& usage);

// Puts the piece behind what there is.
void append(WholeChoice& whole, ChoicePiece piece);

// "stop", "length", or "tool_calls" where the model ended an answer that has calls; "" while it runs.
std::string_view finish_name(request::FinishReason finish, bool has_calls);

// Chunks. Chat: the role comes first, then pieces, then an empty delta with the finish reason; completions: pieces, the
// last one with the finish reason.
std::string role_chunk_json(const AnswerHead& head, int64_t choice);
std::string piece_chunk_json(const AnswerHead& head, int64_t choice, const ChoicePiece& piece,
                             int64_t evicted_tokens = 0);
std::string finish_chunk_json(const AnswerHead& head, int64_t choice, std::string_view finish,
                              int64_t evicted_tokens = 0);
// The events of one piece of a chat: text, thoughts and log-probabilities in one chunk, each beginning of a call and
// each piece of arguments in one of its own.
std::string chat_piece_events(const AnswerHead& head, int64_t choice, const ChoicePiece& piece);
std::string usage_chunk_json(const AnswerHead& head, const Usage& usage);

// One event of a text/event-stream.
std::string sse_event(std::string_view data);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace firstlight::server
