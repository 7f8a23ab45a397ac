// SPDX-License-Identifier: Apache-2.0
// See decoder.h.
#include "text/tokenizers/decoder.h"

#include <algorithm>
#include <utility>

#include "text/tokenizers/byte_alphabet.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  if (from.empty()) return std::string(text);
  for (size_t hit = text.find(from); hit != std::string_view::npos; hit = text.find(from, at)) {
    out.append(text, at, hit - at).append(to);
    at = hit + from.size();
  }
  out.append(text, at);
  return out;
}

// English spacing rules of the BERT decoders.
std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

std::string strip_token(const dec::Strip& spec, std::string_view token) {
  for (size_t i = 0; i < spec.start && token.starts_with(spec.content); ++i) token.remove_prefix(spec.content.size());
  for (size_t i = 0; i < spec.stop && token.ends_with(spec.content); ++i) token.remove_suffix(spec.content.size());
  return std::string(token);
}

// How many bytes at the end of `text` could be the beginning of `pattern` (not all of it).
size_t partial_suffix(std::string_view text, std::string_view pattern) {
  for (size_t length = std::min(text.size(), pattern.size() - 1); length > 0; --length) {
    if (text.ends_with(pattern.substr(0, length))) return length;
  }
  return 0;
}

// What one stage passes on for one token (or chunk). `fused` stages get chunks of a single string.
struct Turn {
  Decoder::Stage& stage;
  std::string_view text;
  bool fused;
  std::vector<std::string>& out;
};

void turn(const dec::ByteLevel&, const Turn& t) {
  auto bytes = from_byte_alphabet(t.text);
  t.out.push_back(bytes ? std::move(*bytes) : std::string(t.text));
}

void turn(const dec::ByteFallback&, const Turn& t) {
  const auto byte = parse_byte_token(t.text);
  t.out.push_back(byte ? std::string(1, static_cast<char>(*byte)) : std::string(t.text));
}

void turn(const dec::Fuse&, const Turn& t) { t.out.emplace_back(t.text); }

void turn(const dec::Metaspace& spec, const Turn& t) {
  const bool first = spec.strip_first && (t.fused || t.stage.num_tokens == 0);
  t.out.push_back(replace_all(t.text, spec.replacement, first ? "" : " "));
}

void turn(const dec::WordPiece& spec, const Turn& t) {
  std::string token(t.text);
  if (t.stage.num_tokens > 0) {
    if (token.starts_with(spec.prefix)) {
      token.erase(0, spec.prefix.size());
    } else {
      token.insert(0, " ");
    }
  }
  t.out.push_back(spec.cleanup ? clean_up(std::move(token)) : std::move(token));
}

void turn(const dec::BpeSuffix& spec, const Turn& t) {
  // The suffix stands for a space, but not in the last token: each token waits for the next one.
  if (t.stage.num_tokens > 0) t.out.push_back(replace_all(t.stage.held, spec.suffix, " "));
  t.stage.held = t.text;
}

void turn(const dec::Strip& spec, const Turn& t) {
  if (!t.fused) {
    t.out.push_back(strip_token(spec, t.text));
    return;
  }
  std::string& held = t.stage.held;
  held += t.text;
  std::string_view rest = held;
  while (!t.stage.past_start) {
    if (t.stage.stripped >= spec.start || (rest.size() >= spec.content.size() && !rest.starts_with(spec.content))) {
      t.stage.past_start = true;
    } else if (rest.starts_with(spec.content)) {
      rest.remove_prefix(spec.content.size());
      ++t.stage.stripped;
    } else if (spec.content.starts_with(rest)) {
      break;  // the character may still be incomplete
    } else {
      t.stage.past_start = true;
    }
  }
  if (t.stage.past_start) {
    // Up to `stop` characters at the end may have to go: keep as many, and a beginning of one more.
    std::string_view keep = rest;
    const size_t partial = spec.stop > 0 ? partial_suffix(keep, spec.content) : 0;
    keep.remove_suffix(partial);
    for (size_t i = 0; i < spec.stop && keep.ends_with(spec.content); ++i) keep.remove_suffix(spec.content.size());
    t.out.emplace_back(keep);
    rest.remove_prefix(keep.size());
  }
  held = std::string(rest);
}

void turn(const dec::Replace& spec, const Turn& t) {
  if (spec.is_regex) {
    std::vector<Span> matches;
    const std::string text = replace_invalid_utf8(t.text);
    std::string out;
    size_t at = 0;
    // Over the step limit the token stays as it is from there on.
    if (!spec.pattern.find_all(text, matches).ok() && matches.empty()) matches.clear();
    for (const Span& match : matches) {
      out.append(text, at, match.begin - at).append(spec.content);
      at = match.end;
    }
    t.out.push_back(out.append(text, at));
    return;
  }
  if (!t.fused) {
    t.out.push_back(replace_all(t.text, spec.from, spec.content));
    return;
  }
  t.stage.held += t.text;
  std::string_view ready = t.stage.held;
  std::string out;
  size_t at = 0;
  for (size_t hit = ready.find(spec.from); hit != std::string_view::npos; hit = ready.find(spec.from, at)) {
    out.append(ready, at, hit - at).append(spec.content);
    at = hit + spec.from.size();
  }
  ready.remove_prefix(at);
  const size_t partial = partial_suffix(ready, spec.from);
  out.append(ready, 0, ready.size() - partial);
  t.out.push_back(std::move(out));
  t.stage.held = std::string(ready.substr(ready.size() - partial));
}

void turn(const dec::Ctc& spec, const Turn& t) {
  if (t.stage.num_tokens > 0 && t.stage.last == t.text) return;
  t.stage.last = t.text;
  std::string token = replace_all(t.text, spec.pad_token, "");
  if (spec.cleanup) token = replace_all(clean_up(std::move(token)), spec.word_delimiter, " ");
  if (!token.empty()) t.out.push_back(std::move(token));
}

void turn(const dec::JoinWithSpaces&, const Turn& t) {
  t.out.push_back(t.stage.num_tokens > 0 ? " " + std::string(t.text) : std::string(t.text));
}

// What a stage still holds when the tokens are over.
void last_turn(const DecoderStep& step, Decoder::Stage& stage, std::vector<std::string>& out) {
  std::string rest = std::move(stage.held);
  if (const auto* suffix = std::get_if<dec::BpeSuffix>(&step)) {
    if (stage.num_tokens > 0) out.push_back(replace_all(rest, suffix->suffix, ""));
  } else if (const auto* strip = std::get_if<dec::Strip>(&step)) {
    std::string_view left = rest;
    for (size_t i = 0; i < strip->stop && left.ends_with(strip->content); ++i)
      left.remove_suffix(strip->content.size());
    if (!left.empty()) out.emplace_back(left);
  } else if (!rest.empty()) {
    out.push_back(std::move(rest));
  }
}

bool fuses(const DecoderStep& step) {
  return std::holds_alternative<dec::Fuse>(step) || std::holds_alternative<dec::ByteLevel>(step);
}

bool works_fused(const DecoderStep& step) {
  const auto* replace = std::get_if<dec::Replace>(&step);
  return fuses(step) || (replace != nullptr && !replace->is_regex) || std::holds_alternative<dec::Strip>(step) ||
         std::holds_alternative<dec::Metaspace>(step);
}

}  // namespace

Result<Decoder> Decoder::build(std::vector<DecoderStep> steps) {
  Decoder decoder;
  bool fused = false;
  for (DecoderStep& step : steps) {
    if (const auto* byte_level = std::get_if<dec::ByteLevel>(&step); byte_level != nullptr && fused) {
      return unsupported("decoder: ByteLevel after Fuse or ByteLevel");
    }
    if (fused && !works_fused(step)) {
      return unsupported("decoder: a step of kind " + std::to_string(step.index()) + " after Fuse or ByteLevel");
    }
    if (const auto* strip = std::get_if<dec::Strip>(&step); strip != nullptr && strip->content.empty()) {
      return invalid_data("decoder: Strip without a character");
    }
    if (const auto* replace = std::get_if<dec::Replace>(&step);
        replace != nullptr && !replace->is_regex && replace->from.empty()) {
      return invalid_data("decoder: Replace without a pattern");
    }
    const bool fuse_next = fused || fuses(step);
    decoder.items_.push_back({std::move(step), fused});
    fused = fuse_next;
  }
  return decoder;
}

Decoder::State Decoder::begin() const {
  State state;
  state.stages.resize(items_.size());
  return state;
}

void Decoder::feed(State& state, size_t index, std::string_view text) const {
  if (index == items_.size()) {
    state.bytes += text;
    return;
  }
  std::vector<std::string> out;
  Stage& stage = state.stages[index];
  const Turn args{stage, text, items_[index].fused, out};
  std::visit([&args](const auto& step) { turn(step, args); }, items_[index].step);
  ++stage.num_tokens;
  for (const std::string& piece : out) feed(state, index + 1, piece);
}

void Decoder::end(State& state, size_t index) const {
  for (size_t i = index; i < items_.size(); ++i) {
    std::vector<std::string> out;
    last_turn(items_[i].step, state.stages[i], out);
    for (const std::string& piece : out) feed(state, i + 1, piece);
  }
}

void Decoder::drain(State& state, std::string& out) const {
  const size_t ready = state.bytes.size() - incomplete_utf8_suffix(state.bytes);
  out += replace_invalid_utf8(std::string_view(state.bytes).substr(0, ready));
  state.bytes.erase(0, ready);
}

void Decoder::push(State& state, std::string_view token, std::string& out) const {
  feed(state, 0, token);
  drain(state, out);
}

void Decoder::push_raw(State& state, std::string_view token, std::string& out) const {
  size_t index = 0;
  while (index < items_.size() && !items_[index].fused) ++state.stages[index++].num_tokens;
  feed(state, index, token);
  drain(state, out);
}

void Decoder::finish(State& state, std::string& out) const {
  end(state, 0);
  out += replace_invalid_utf8(state.bytes);
  state = begin();
}

std::string Decoder::token_bytes(std::string_view token) const {
  State state = begin();
  for (Stage& stage : state.stages) {
    stage.num_tokens = 1;
    stage.past_start = true;
  }
  feed(state, 0, token);
  // A stage that waits for the next token to tell the last one gets one more, empty.
  for (size_t i = 0; i < items_.size(); ++i) {
    if (std::holds_alternative<dec::BpeSuffix>(items_[i].step)) feed(state, i, "");
  }
  end(state, 0);
  return std::move(state.bytes);
}

std::string Decoder::opening_bytes(std::span<const Token> tokens) const {
  State state = begin();
  for (const Token& token : tokens) {
    state.bytes.clear();
    size_t index = 0;
    while (token.raw && index < items_.size() && !items_[index].fused) ++state.stages[index++].num_tokens;
    feed(state, index, token.text);
  }
  end(state, 0);
  return std::move(state.bytes);
}

bool Decoder::joins_bytes() const {
  return std::all_of(items_.begin(), items_.end(), [](const Item& item) {
    if (const auto* strip = std::get_if<dec::Strip>(&item.step)) return strip->stop == 0 || !item.fused;
    if (std::holds_alternative<dec::Replace>(item.step)) return !item.fused;
    return !std::holds_alternative<dec::BpeSuffix>(item.step) && !std::holds_alternative<dec::Ctc>(item.step);
  });
}

}  // namespace firstlight::text
