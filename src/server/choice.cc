// SPDX-License-Identifier: Apache-2.0
#include "server/choice.h"

#include <algorithm>
#include <utility>

namespace firstlight::server {

using request::FinishReason;

int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

Choice::Choice(const text::Tokenizer& tokenizer, Options options)
    : tokenizer_(tokenizer),
      detokenizer_(tokenizer, {.skip_special = options.skip_special_tokens}),
      stop_strings_(std::move(options.stops)),
      num_characters_(options.text_offset) {}

LogprobEntry Choice::entry(const request::TokenEvent& event) const {
  const auto alternative = [this](const request::TokenLogprob& one) {
    std::string bytes = tokenizer_.token_bytes(one.token);
    if (bytes.empty()) bytes = tokenizer_.token_text(one.token);  // a special token
    // NaN counts as the least too.
    return LogprobEntry::Alternative{std::move(bytes), one.logprob >= kLeastLogprob ? one.logprob : kLeastLogprob};
  };
  LogprobEntry entry;
  entry.chosen = alternative(*event.logprob);
  for (const auto& one : event.top_logprobs) entry.top.push_back(alternative(one));
  entry.text_offset = num_characters_;
  return entry;
}

ChoicePiece Choice::push(const request::TokenEvent& event) {
  ChoicePiece piece;
  if (done_) return piece;
  if (event.token) {
    ++num_tokens_;
    if (event.logprob) waiting_.push_back(entry(event));
    const std::string text = detokenizer_.push(*event.token);
    num_characters_ += count_characters(text);
    piece.text = stop_strings_.push(text);
  }
  if (!stop_strings_.stopped() && event.finish != FinishReason::kNone) {
    piece.text += stop_strings_.push(detokenizer_.flush());
    if (!stop_strings_.stopped()) piece.text += stop_strings_.flush();
    piece.finish = event.finish;
  }
  if (stop_strings_.stopped()) piece.finish = FinishReason::kStop;
  done_ = piece.finish != FinishReason::kNone;
  if (!piece.is_empty()) piece.logprobs = std::exchange(waiting_, {});
  return piece;
}

}  // namespace firstlight::server
