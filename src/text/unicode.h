// SPDX-License-Identifier: Apache-2.0
// UTF-8 and the few Unicode facts the tokenizers need: decoding with the "maximal subpart" rule for invalid bytes,
// encoding, normal forms and character classes. The tables are utf8proc's (Unicode 15), which only this file's source
// sees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace firstlight::text {

inline constexpr char32_t kReplacement = 0xFFFD;

// One decoded code point. `length` is the number of bytes read, at least 1. An invalid byte sequence gives
// kReplacement, valid = false and the length of its maximal subpart (Unicode 3.9, table 3-8), so that every reader here
// replaces alike.
struct CodePoint {
  char32_t value = 0;
  uint32_t length = 1;
  bool valid = true;
};

// The code point at byte `pos` (which must be inside the text).
CodePoint decode_utf8(std::string_view text, size_t pos);
void append_utf8(std::string& out, char32_t code_point);
bool is_valid_utf8(std::string_view text);

// The text with each maximal invalid subpart replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// How many bytes at the end of `text` are an incomplete but so far valid UTF-8 sequence (0 to 3).
size_t incomplete_utf8_suffix(std::string_view text);

// Number of bytes a sequence starting with `lead` should have; 1 for anything that is no lead byte.
inline uint32_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// The normal form of valid UTF-8 text. Code points without a table entry stay as they are.
std::string normalize(std::string_view text, NormalForm form);

// Lower case, one code point at a time and without regard to context or language (U+0130 becomes two code points).
std::string lowercase(std::string_view text);
char32_t lowercase_simple(char32_t c);

bool is_white_space(char32_t c);          // property White_Space
bool is_other(char32_t c);                // Cc, Cf, Cs, Co (unassigned code points are not meant)
bool is_punctuation(char32_t c);          // P*
bool is_ascii_punctuation(char32_t c);    // P* and S* below 0x80
bool is_mark(char32_t c);                 // M*
bool is_nonspacing_mark(char32_t c);      // Mn
bool is_numeric(char32_t c);              // N*
bool is_word(char32_t c);                 // L*, M*, Nd, Nl, Pc: the \w of regular expressions
bool is_alphabetic_or_digit(char32_t c);  // L*, N*
bool is_cjk_ideograph(char32_t c);        // the blocks BERT puts spaces around

// Whether there is an extended grapheme cluster boundary between two neighbours. `state` starts at 0 for each text.
bool is_grapheme_break(char32_t left, char32_t right, int32_t& state);

}  // namespace firstlight::text
