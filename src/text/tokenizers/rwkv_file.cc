// SPDX-License-Identifier: Apache-2.0
// The RWKV world vocabulary: lines of "id literal length", where the literal is a Python string or bytes literal and
// the length the number of bytes it stands for. Id 0, which the file leaves out, ends a text.
#include <charconv>
#include <optional>

#include "text/tokenizers/tokenizer_parts.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

std::optional<uint32_t> read_hex(std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<char> simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return std::nullopt;
  }
}

size_t hex_digits_of(char escape, bool bytes) {
  if (escape == 'x') return 2;
  if (bytes) return 0;
  return escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
}

// 'text', "text", b'bytes' or b"bytes".
Result<std::string> read_literal(std::string_view literal) {
  const bool bytes = literal.starts_with('b');
  if (bytes) literal.remove_prefix(1);
  const bool quoted = literal.size() >= 2 && (literal[0] == '\'' || literal[0] == '"') && literal.back() == literal[0];
  if (!quoted) return invalid_data("not a string literal");
  const std::string_view body = literal.substr(1, literal.size() - 2);
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    if (++i == body.size()) return invalid_data("the literal ends in a backslash");
    if (const auto simple = simple_escape(body[i])) {
      out += *simple;
      continue;
    }
    const size_t digits = hex_digits_of(body[i], bytes);
    const auto value = digits > 0 && i + digits < body.size() ? read_hex(body.substr(i + 1, digits)) : std::nullopt;
    if (!value || *value > 0x10FFFF) return invalid_data("unknown escape in the literal");
    i += digits;
    if (bytes) {
      out += static_cast<char>(static_cast<unsigned char>(*value));
    } else {
      append_utf8(out, *value);
    }
  }
  return out;
}

Status read_line(std::string_view line, Vocabulary& vocabulary) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last <= first) return invalid_data("wanted 'id literal length'");
  int64_t id = 0;
  int64_t length = 0;
  const auto id_end = std::from_chars(line.data(), line.data() + first, id);
  const auto length_end = std::from_chars(line.data() + last + 1, line.data() + line.size(), length);
  if (id_end.ptr != line.data() + first || length_end.ptr != line.data() + line.size()) {
    return invalid_data("id or length is not a number");
  }
  const std::string token = FL_TRY(read_literal(line.substr(first + 1, last - first - 1)));
  if (static_cast<int64_t>(token.size()) != length) {
    return invalid_data("the literal has " + std::to_string(token.size()) + " bytes, the line says " +
                        std::to_string(length));
  }
  return vocabulary.add(token, id);
}

}  // namespace

Result<Tokenizer> load_rwkv_vocabulary(std::string_view content) {
  auto vocabulary = std::make_shared<Vocabulary>();
  size_t line_number = 0;
  for (size_t pos = 0; pos < content.size();) {
    const size_t end = std::min(content.find('\n', pos), content.size());
    std::string_view line = content.substr(pos, end - pos);
    if (line.ends_with('\r')) line.remove_suffix(1);
    pos = end + 1;
    ++line_number;
    if (line.empty()) continue;
    FL_TRY(read_line(line, *vocabulary).with_context("RWKV vocabulary, line " + std::to_string(line_number)));
  }
  if (vocabulary->num_tokens() == 0) return invalid_data("RWKV vocabulary: no token");
  TokenizerDraft draft;
  if (!vocabulary->contains(0)) {
    draft.added.push_back({.content = "<|endoftext|>", .id = 0, .special = true});
    draft.raw_text_ids.push_back(0);
    draft.parts.eos_id = 0;
  }
  draft.parts.vocabulary = vocabulary;
  draft.parts.model = LongestMatchModel(vocabulary);
  draft.parts.cache_words = false;
  return finish_tokenizer(std::move(draft));
}

}  // namespace firstlight::text
