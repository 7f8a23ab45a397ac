// SPDX-License-Identifier: Apache-2.0
#include "server/choice.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace firstlight::server {

using request::FinishReason;

int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

Choice::Choice(const text::Tokenizer& tokenizer, Options options)
    : tokenizer_(tokenizer),
      detokenizer_(tokenizer, {.skip_special = options.skip_special_tokens}),
      skip_special_(options.skip_special_tokens),
      stop_strings_(std::move(options.stops)),
      reading_(std::move(options.reading)),
      echo_(std::move(options.echo)),
      scored_prompt_(std::move(options.scored_prompt)),
      prompt_offsets_(std::move(options.prompt_offsets)) {
  FL_CHECK(scored_prompt_.size() == prompt_offsets_.size());
  if (reading_ == nullptr) return;
  parser_ = std::make_unique<text::ChatParser>(
      reading_->profile->format, reading_->tools,
      text::ChatParser::Options{.calls = reading_->tools != nullptr, .one_call = reading_->one_call});
  if (reading_->continued.empty()) {
    parser_->continue_from(reading_->prompt_end);
  } else {
    parser_->continue_message(reading_->continued);
  }
}

LogprobEntry Choice::entry(const request::TokenLogprob& chosen, const std::vector<request::TokenLogprob>& top) const {
  const auto alternative = [this](const request::TokenLogprob& one) {
    std::string bytes = tokenizer_.token_bytes(one.token);
    if (bytes.empty()) bytes = tokenizer_.token_text(one.token);  // a special token
    // NaN counts as the least too.
    return LogprobEntry::Alternative{std::move(bytes), one.logprob >= kLeastLogprob ? one.logprob : kLeastLogprob};
  };
  LogprobEntry entry;
  entry.chosen = alternative(chosen);
  for (const auto& one : top) entry.top.push_back(alternative(one));
  entry.text_offset = num_characters_;
  return entry;
}

// Stop strings are for the output: the prompt goes past them.
void Choice::begin_with_prompt(const request::TokenEvent& event, ChoicePiece& piece) {
  for (size_t i = 0; i < scored_prompt_.size(); ++i) {
    num_characters_ = prompt_offsets_[i];
    const bool is_scored = i > 0 && i <= event.prompt_scores.size();
    waiting_.push_back(is_scored ? entry(event.prompt_scores[i - 1].chosen, event.prompt_scores[i - 1].top)
                                 : entry({.token = scored_prompt_[i]}, {}));
    waiting_.back().is_scored = is_scored;
  }
  num_characters_ = count_characters(echo_);
  piece.text = std::exchange(echo_, {});
  scored_prompt_.clear();
  prompt_offsets_.clear();
}

// Special tokens that are pieces of marks have to be seen by the parser, whoever else sees them.
void Choice::take_token(int32_t token, ChoicePiece& piece) {
  const bool is_mark = reading_ != nullptr && std::ranges::binary_search(reading_->marks(), token);
  const std::string text = detokenizer_.push(token, skip_special_ && !is_mark);
  const std::string_view control = is_mark && skip_special_ ? tokenizer_.token_text(token) : "";
  take(text, text.ends_with(control) ? control.size() : 0, piece);
}

void Choice::take_parts(std::vector<text::ChatPart> parts, ChoicePiece& piece) {
  for (text::ChatPart& part : parts) {
    if (stop_strings_.stopped()) return;
    switch (part.kind) {
      case text::ChatPart::Kind::kContent:
        if (!reading_->only_calls) piece.text += stop_strings_.push(part.text);
        break;
      case text::ChatPart::Kind::kReasoning:
        if (reading_->show_reasoning) piece.reasoning += part.text;
        break;
      case text::ChatPart::Kind::kCall:
        piece.calls.push_back({num_calls_++, std::move(part.id), std::move(part.text), ""});
        break;
      case text::ChatPart::Kind::kArguments:
        piece.calls.push_back({num_calls_ - 1, "", "", std::move(part.text)});
        break;
      case text::ChatPart::Kind::kCallEnd:
        break;
    }
  }
}

void Choice::take(const std::string& text, size_t control, ChoicePiece& piece) {
  num_characters_ += count_characters(text);
  if (parser_ == nullptr) {
    piece.text += stop_strings_.push(text);
  } else {
    take_parts(parser_->push(text, control), piece);
  }
}

ChoicePiece Choice::push(const request::TokenEvent& event) {
  ChoicePiece piece;
  if (done_) return piece;
  if (!std::exchange(begun_, true)) begin_with_prompt(event, piece);
  if (event.token) {
    ++num_tokens_;
    if (event.logprob) waiting_.push_back(entry(*event.logprob, event.top_logprobs));
    const bool was_thinking = parser_ != nullptr && parser_->in_thoughts();
    take_token(*event.token, piece);
    if (was_thinking || (parser_ != nullptr && parser_->in_thoughts())) ++num_reasoning_tokens_;
  }
  const bool is_over = parser_ != nullptr && parser_->is_over();
  if (!stop_strings_.stopped() && (is_over || event.finish != FinishReason::kNone)) {
    if (!is_over) take(detokenizer_.flush(), 0, piece);
    if (parser_ != nullptr) take_parts(parser_->finish(event.finish == FinishReason::kStop), piece);
    if (!stop_strings_.stopped()) piece.text += stop_strings_.flush();
    piece.finish = is_over ? FinishReason::kStop : event.finish;
  }
  if (stop_strings_.stopped()) piece.finish = FinishReason::kStop;
  done_ = piece.finish != FinishReason::kNone;
  piece.has_calls = done_ && num_calls_ > 0 && !reading_->is_named;
  if (!piece.is_empty()) piece.logprobs = std::exchange(waiting_, {});
  return piece;
}

}  // namespace firstlight::server
