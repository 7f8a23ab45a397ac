// SPDX-License-Identifier: Apache-2.0
// One choice of an answer: token events in, text, thoughts, tool calls and log-probabilities out, piece by piece. The
// pieces joined are the whole, so streamed and whole answers cannot differ. Knows no JSON and no HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "request/request.h"
#include "server/chat_reading.h"
#include "text/chat/chat_parser.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace firstlight::server {

// A token with its log-probability as the formats want it; never below kLeastLogprob, so that JSON can carry it.
struct LogprobEntry {
  struct Alternative {
    std::string bytes;
    double logprob = 0;
  };
  Alternative chosen;
  std::vector<Alternative> top;
  bool is_scored = true;    // not the first token of an echoed prompt: nothing comes before it
  int64_t text_offset = 0;  // characters (code points) of the text that came before the token
};

inline constexpr double kLeastLogprob = -9999;

// A piece of a tool call: its beginning (id and name, no arguments), or some of its arguments.
struct CallPiece {
  int64_t index = 0;
  std::string id, name;
  std::string arguments;
};

struct ChoicePiece {
  std::string text;
  std::string reasoning;
  std::vector<CallPiece> calls;
  std::vector<LogprobEntry> logprobs;
  request::FinishReason finish = request::FinishReason::kNone;  // of the last piece, and only of it

  bool has_calls = false;  // at the end: the answer has calls, which the model chose to make

  bool is_empty() const {
    return text.empty() && reasoning.empty() && calls.empty() && finish == request::FinishReason::kNone;
  }
};

class Choice {
 public:
  struct Options {
    std::vector<std::string> stops;
    bool skip_special_tokens = true;
    std::string echo;                            // the prompt's text: the first piece begins with it
    std::vector<int32_t> scored_prompt;          // its ids, where the answer has their log-probabilities,
    std::vector<int64_t> prompt_offsets;         // and where in `echo` (characters) each begins
    std::shared_ptr<const ChatReading> reading;  // null: all is text
  };

  Choice(const text::Tokenizer& tokenizer, Options options);

  // What the event makes certain; the first one brings the prompt's log-probabilities if they are told.
  // Log-probabilities wait for a piece with text or an end. After a stop string was met, the piece has finish kStop,
  // is_done() holds and the engine need not go on; later events give empty pieces. The event's finish must not be
  // kError or kCancelled. Stop strings are looked for in the text alone, not in thoughts or calls. With one_call the
  // answer ends with its first call, as with a stop string.
  ChoicePiece push(const request::TokenEvent& event);

  bool is_done() const { return done_; }
  int64_t num_tokens() const { return num_tokens_; }  // of output; a stop token is none, what makes a stop string is
  int64_t num_reasoning_tokens() const { return num_reasoning_tokens_; }  // of these, in thoughts (marks included)

 private:
  void take_token(int32_t token, ChoicePiece& piece);
  void take(const std::string& text, size_t control, ChoicePiece& piece);
  void take_parts(std::vector<text::ChatPart> parts, ChoicePiece& piece);
  LogprobEntry entry(const request::TokenLogprob& chosen, const std::vector<request::TokenLogprob>& top) const;
  void begin_with_prompt(const request::TokenEvent& event, ChoicePiece& piece);

  text::Tokenizer tokenizer_;
  text::Detokenizer detokenizer_;
  bool skip_special_;
  text::StopStrings stop_strings_;
  std::shared_ptr<const ChatReading> reading_;
  std::unique_ptr<text::ChatParser> parser_;  // where there is something to read
  std::vector<LogprobEntry> waiting_;
  std::string echo_;
  std::vector<int32_t> scored_prompt_;
  std::vector<int64_t> prompt_offsets_;
  bool begun_ = false;
  int64_t num_characters_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_reasoning_tokens_ = 0;
  int64_t num_calls_ = 0;
  bool done_ = false;
};

int64_t count_characters(std::string_view utf8);

}  // namespace firstlight::server
