// SPDX-License-Identifier: Apache-2.0
// See unicode.h. Normal forms work code point by code point with utf8proc's decompositions; a run of ASCII takes a
// short way.
#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

namespace firstlight::text {
namespace {

struct Lead {
  uint32_t length;
  unsigned char min_second;
  unsigned char max_second;
};

// Which second bytes may follow a lead byte (Unicode table 3-7); length 0: no lead byte.
Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes of the sequence at `pos` that are valid so far, and whether it is complete.
struct Scan {
  uint32_t length;
  bool complete;
};

Scan scan_sequence(std::string_view text, size_t pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < 0x80) return {1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {0, false};
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (pos + i >= text.size()) return {i, false};
    const auto byte = static_cast<unsigned char>(text[pos + i]);
    const unsigned char low = i == 1 ? lead.min_second : 0x80;
    const unsigned char high = i == 1 ? lead.max_second : 0xBF;
    if (byte < low || byte > high) return {i, false};
  }
  return {lead.length, true};
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_ascii(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < 0x80) return {first, 1, true};
  const Scan scan = scan_sequence(text, pos);
  if (!scan.complete) return {kReplacement, scan.length == 0 ? 1 : scan.length, false};
  char32_t value = scan.length == 2 ? first & 0x1F : scan.length == 3 ? first & 0x0F : first & 0x07;
  for (uint32_t i = 1; i < scan.length; ++i) value = (value << 6) | (static_cast<unsigned char>(text[pos + i]) & 0x3F);
  return {value, scan.length, true};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Scan scan = scan_sequence(text, pos);
    if (!scan.complete) return false;
    pos += scan.length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint point = decode_utf8(text, pos);
    if (point.valid) {
      out.append(text, pos, point.length);
    } else {
      append_utf8(out, kReplacement);
    }
    pos += point.length;
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t pos = text.size() - back;
    const auto byte = static_cast<unsigned char>(text[pos]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const Scan scan = scan_sequence(text, pos);
    return !scan.complete && scan.length == back ? back : 0;
  }
  return 0;
}

std::string normalize(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  int options = UTF8PROC_STABLE;
  switch (form) {
    case NormalForm::kNfc:
      options |= UTF8PROC_COMPOSE;
      break;
    case NormalForm::kNfd:
      options |= UTF8PROC_DECOMPOSE;
      break;
    case NormalForm::kNfkc:
      options |= UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
      break;
    case NormalForm::kNfkd:
      options |= UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
      break;
  }
  utf8proc_uint8_t* buffer = nullptr;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto length =
      utf8proc_map(bytes, static_cast<utf8proc_ssize_t>(text.size()), &buffer, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(buffer, &std::free);
  if (length < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
}

char32_t lowercase_simple(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint point = decode_utf8(text, pos);
    pos += point.length;
    if (point.value == 0x130) {
      out += "i\xCC\x87";
    } else {
      append_utf8(out, lowercase_simple(point.value));
    }
  }
  return out;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  if (c == 0x85) return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_other(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CS ||
         kind == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_mark(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t c) {
  const auto kind = category(c);
  // The circled letters (So) have the property Alphabetic, which \w asks for.
  const bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) || is_mark(c) || circled ||
         kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || c == 0x200C ||
         c == 0x200D;
}

bool is_alphabetic_or_digit(char32_t c) {
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) || is_numeric(c);
}

bool is_cjk_ideograph(char32_t c) {
  // The list of the BERT tokenizers, with their 2B920 where 2B820 would be expected.
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_grapheme_break(char32_t left, char32_t right, int32_t& state) {
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right),
                                          &state) != 0;
}

}  // namespace firstlight::text
