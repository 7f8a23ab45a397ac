// SPDX-License-Identifier: Apache-2.0
// See added_tokens.h. A match that is refused (part of a word, control token) is skipped as a whole, as the tokenizers
// library does; only a control token in untrusted text is treated as if it did not exist.
#include "text/tokenizers/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace firstlight::text {
namespace {

size_t char_before(std::string_view text, size_t pos) {
  do {
    --pos;
  } while (pos > 0 && (text[pos] & 0xC0) == 0x80);
  return pos;
}

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  const bool left = begin == 0 || !is_word(decode_utf8(text, char_before(text, begin)).value);
  const bool right = end == text.size() || !is_word(decode_utf8(text, end).value);
  return left && right;
}

bool is_stripped(char32_t c, bool ascii_only) { return (c < 0x80 || !ascii_only) && is_white_space(c); }

size_t skip_space_left(std::string_view text, size_t begin, size_t floor, bool ascii_only) {
  while (begin > floor) {
    const size_t before = char_before(text, begin);
    if (before < floor || !is_stripped(decode_utf8(text, before).value, ascii_only)) break;
    begin = before;
  }
  return begin;
}

size_t skip_space_right(std::string_view text, size_t end, bool ascii_only) {
  while (end < text.size()) {
    const CodePoint point = decode_utf8(text, end);
    if (!is_stripped(point.value, ascii_only)) break;
    end += point.length;
  }
  return end;
}

bool inside(const std::vector<Span>& spans, size_t begin, size_t end) {
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), begin, [](size_t at, const Span& span) { return at < span.begin; });
  return after != spans.begin() && std::prev(after)->end >= end;
}

}  // namespace

Result<AddedTokens> AddedTokens::build(std::vector<AddedToken> tokens, const Normalizer& normalizer) {
  AddedTokens added;
  added.tokens_ = std::move(tokens);
  std::vector<std::string> normalized(added.tokens_.size());
  std::vector<ByteTrie::Key> raw, raw_with_control, in_normalized, in_normalized_plain;
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken& token = added.tokens_[i];
    const auto value = static_cast<int32_t>(i);
    if (token.normalized) {
      normalized[i] = token.content;
      FL_TRY(normalizer.apply(normalized[i]).with_context("added token '" + token.content + "'"));
      in_normalized.push_back({normalized[i], value});
      if (!token.control) in_normalized_plain.push_back({normalized[i], value});
    } else {
      raw.push_back({token.content, value});
    }
    if (!token.normalized || token.control) raw_with_control.push_back({token.content, value});
  }
  added.raw_ = ByteTrie(std::move(raw));
  added.raw_with_control_ = ByteTrie(std::move(raw_with_control));
  added.normalized_ = ByteTrie(std::move(in_normalized));
  added.normalized_plain_ = ByteTrie(std::move(in_normalized_plain));
  return added;
}

void AddedTokens::split(std::string_view text, Pass pass, const Rule& rule, std::vector<Part>& parts) const {
  const bool by_span = rule.policy == Policy::kTrustedSpans;
  const ByteTrie& trie =
      pass == Pass::kRaw ? (by_span ? raw_with_control_ : raw_) : (by_span ? normalized_plain_ : normalized_);
  size_t done = 0;
  for (size_t pos = 0; pos < text.size() && !trie.empty();) {
    if (!trie.can_begin(text[pos])) {
      ++pos;
      continue;
    }
    ByteTrie::Match match;
    trie.for_each_prefix(text, pos, [&](size_t length, int32_t value) {
      const bool control = tokens_[static_cast<size_t>(value)].control;
      if (by_span && control && !inside(*rule.trusted, pos, pos + length)) return;
      match = {length, value};
    });
    if (match.length == 0) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    size_t begin = pos;
    size_t end = pos + match.length;
    pos = end;
    if (rule.policy == Policy::kNoControl && token.control) continue;
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) begin = skip_space_left(text, begin, done, token.ascii_strip);
    if (token.rstrip) end = skip_space_right(text, end, token.ascii_strip);
    if (end <= done) continue;  // lies in white space that the token before took along
    begin = std::max(begin, done);
    if (begin > done) parts.push_back({{done, begin}, kNoToken});
    parts.push_back({{begin, end}, token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, kNoToken});
}

}  // namespace firstlight::text
