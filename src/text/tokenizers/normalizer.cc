// SPDX-License-Identifier: Apache-2.0
// See normalizer.h.
#include "text/tokenizers/normalizer.h"

#include <utility>

#include "text/tokenizers/byte_alphabet.h"

namespace firstlight::text {
namespace {

struct Subject {
  std::string& text;
  bool front_removed = false;
};

// Rebuilds the text code point by code point; `map(out, c)` appends what c becomes.
template <typename Map>
void map_chars(Subject& subject, Map map) {
  std::string out;
  out.reserve(subject.text.size());
  for (size_t pos = 0; pos < subject.text.size();) {
    const CodePoint point = decode_utf8(subject.text, pos);
    const bool first = pos == 0;
    pos += point.length;
    map(out, point.value);
    if (first && out.empty()) subject.front_removed = true;
  }
  subject.text = std::move(out);
}

bool is_nmt_removed(char32_t c) {
  return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool is_nmt_space(char32_t c) {
  return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
         c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

Status step(const norm::UnicodeForm& form, Subject& subject) {
  std::string& text = subject.text;
  text = normalize(text, form.form);
  return ok_status();
}

Status step(const norm::Lowercase&, Subject& subject) {
  std::string& text = subject.text;
  text = lowercase(text);
  return ok_status();
}

Status step(const norm::StripAccents&, Subject& subject) {
  map_chars(subject, [](std::string& out, char32_t c) {
    if (!is_mark(c)) append_utf8(out, c);
  });
  return ok_status();
}

Status step(const norm::Strip& strip, Subject& subject) {
  std::string& text = subject.text;
  size_t begin = 0;
  while (strip.left && begin < text.size()) {
    const CodePoint point = decode_utf8(text, begin);
    if (!is_white_space(point.value)) break;
    begin += point.length;
  }
  size_t end = begin;  // one past the last character that stays
  for (size_t pos = begin; pos < text.size();) {
    const CodePoint point = decode_utf8(text, pos);
    pos += point.length;
    if (!strip.right || !is_white_space(point.value)) end = pos;
  }
  if (begin > 0) subject.front_removed = true;
  text = text.substr(begin, end - begin);
  return ok_status();
}

Status step(const norm::Prepend& prepend, Subject& subject) {
  std::string& text = subject.text;
  if (!text.empty()) text.insert(0, prepend.text);
  return ok_status();
}

Status step(const norm::Replace& replace, Subject& subject) {
  std::string& text = subject.text;
  std::vector<Span> matches;
  FL_TRY(replace.pattern.find_all(text, matches));
  if (matches.empty()) return ok_status();
  if (matches[0].begin == 0 && matches[0].end > 0 && replace.content.empty()) subject.front_removed = true;
  std::string out;
  size_t at = 0;
  for (const Span& match : matches) {
    out.append(text, at, match.begin - at).append(replace.content);
    at = match.end;
  }
  out.append(text, at);
  text = std::move(out);
  return ok_status();
}

Status step(const norm::ReplaceText& replace, Subject& subject) {
  std::string& text = subject.text;
  if (replace.from.empty()) return ok_status();
  std::string out;
  size_t at = 0;
  for (size_t hit = text.find(replace.from); hit != std::string::npos; hit = text.find(replace.from, at)) {
    out.append(text, at, hit - at).append(replace.to);
    at = hit + replace.from.size();
  }
  if (at == 0) return ok_status();
  if (replace.to.empty() && text.starts_with(replace.from)) subject.front_removed = true;
  out.append(text, at);
  text = std::move(out);
  return ok_status();
}

Status step(const norm::Precompiled& precompiled, Subject& subject) {
  std::string& text = subject.text;
  text = precompiled.map->apply_by_grapheme(text);
  return ok_status();
}

Status step(const norm::Bert& bert, Subject& subject) {
  std::string& text = subject.text;
  if (bert.clean_text) {
    map_chars(subject, [](std::string& out, char32_t c) {
      const bool space = c == '\t' || c == '\n' || c == '\r' || is_white_space(c);
      if (c == 0 || c == kReplacement || (is_other(c) && c != '\t' && c != '\n' && c != '\r')) return;
      append_utf8(out, space ? U' ' : c);
    });
  }
  if (bert.handle_chinese_chars) {
    map_chars(subject, [](std::string& out, char32_t c) {
      const bool spaced = is_cjk_ideograph(c);
      if (spaced) out += ' ';
      append_utf8(out, c);
      if (spaced) out += ' ';
    });
  }
  if (bert.strip_accents) {
    text = normalize(text, NormalForm::kNfd);
    map_chars(subject, [](std::string& out, char32_t c) {
      if (!is_nonspacing_mark(c)) append_utf8(out, c);
    });
  }
  if (bert.lowercase) text = lowercase(text);
  return ok_status();
}

Status step(const norm::Nmt&, Subject& subject) {
  map_chars(subject, [](std::string& out, char32_t c) {
    if (!is_nmt_removed(c)) append_utf8(out, is_nmt_space(c) ? U' ' : c);
  });
  return ok_status();
}

Status step(const norm::ByteLevel&, Subject& subject) {
  std::string& text = subject.text;
  std::string out;
  append_byte_alphabet(out, text);
  text = std::move(out);
  return ok_status();
}

// The next stretch of input and what it becomes.
struct Chunk {
  std::string_view text;
  size_t consumed;
};

Chunk next_chunk(const norm::SentencePiece& spec, std::string_view rest) {
  if (spec.user_defined != nullptr) {
    const ByteTrie::Match match = spec.user_defined->longest(rest, 0);
    if (match.length > 0) return {rest.substr(0, match.length), match.length};
  }
  if (spec.map != nullptr) {
    const Charsmap::Match match = spec.map->longest(rest);
    if (match.length > 0) return {match.replacement, match.length};
  }
  const size_t length = decode_utf8(rest, 0).length;
  return {rest.substr(0, length), length};
}

Status step(const norm::SentencePiece& spec, Subject& subject) {
  std::string& text = subject.text;
  const std::string_view space = spec.escape_whitespaces ? "\xE2\x96\x81" : " ";
  std::string_view rest = text;
  while (spec.remove_extra_whitespaces && !rest.empty()) {
    const Chunk chunk = next_chunk(spec, rest);
    if (chunk.text != " ") break;
    rest.remove_prefix(chunk.consumed);
  }
  std::string out;
  if (rest.empty()) {
    text.clear();
    return ok_status();
  }
  if (spec.add_dummy_prefix && !spec.whitespace_as_suffix) out += space;
  bool after_space = spec.remove_extra_whitespaces;
  while (!rest.empty()) {
    const Chunk chunk = next_chunk(spec, rest);
    std::string_view piece = chunk.text;
    while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
    for (char c : piece) {
      if (c == ' ') {
        out += space;
      } else {
        out += c;
      }
    }
    if (!piece.empty()) after_space = spec.remove_extra_whitespaces && piece.ends_with(' ');
    rest.remove_prefix(chunk.consumed);
  }
  while (spec.remove_extra_whitespaces && out.ends_with(space)) out.resize(out.size() - space.size());
  if (spec.add_dummy_prefix && spec.whitespace_as_suffix) out += space;
  text = std::move(out);
  return ok_status();
}

}  // namespace

Status Normalizer::apply(std::string& text, bool* front_removed) const {
  Subject subject{text};
  for (const NormalizerStep& item : steps_) {
    FL_TRY(std::visit([&subject](const auto& one) { return step(one, subject); }, item));
  }
  if (front_removed != nullptr) *front_removed = subject.front_removed;
  return ok_status();
}

}  // namespace firstlight::text
