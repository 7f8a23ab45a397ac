// SPDX-License-Identifier: Apache-2.0
// UTF-8 and the few Unicode facts the tokenizers need: decoding with the "maximal subpart" rule for invalid bytes,
// encoding, and character classes. Normal forms and categories come from utf8proc, behind this file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace firstlight::text {

// One decoded code point. `length` is the number of bytes read (at least 1 unless the input was empty); an invalid byte
// sequence gives kReplacement and the length of its maximal subpart, so that every decoder replaces alike.
struct CodePoint {
  char32_t value = 0;
  uint32_t length = 0;
  bool valid = true;
};

inline constexpr char32_t kReplacement = 0xFFFD;

CodePoint decode_utf8(std::string_view text, size_t pos);
void append_utf8(std::string& out, char32_t code_point);
bool is_valid_utf8(std::string_view text);

// The text with each maximal invalid subpart replaced by U+FFFD (what Rust's from_utf8_lossy and Python's "replace" do).
std::string replace_invalid_utf8(std::string_view text);

// How many bytes at the end of `text` are an incomplete but so far valid UTF-8 sequence (0 to 3).
size_t incomplete_utf8_suffix(std::string_view text);

// Number of bytes of a sequence that starts with `lead`, 1 for anything that is no lead byte.
inline uint32_t utf8_length(unsigned char lead) { return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
std::string normalize(std::string_view text, NormalForm form);

// Full lower-case mapping, one code point at a time (as Rust's char::to_lowercase: U+0130 gives two code points).
std::string lowercase(std::string_view text);

bool is_white_space(char32_t c);       // Unicode White_Space
bool is_control(char32_t c);           // Cc, Cf, Cs, Co, Cn
bool is_punctuation(char32_t c);       // P*
bool is_mark(char32_t c);              // M*
bool is_nonspacing_mark(char32_t c);   // Mn
bool is_numeric(char32_t c);           // N*
bool is_alphabetic_or_digit(char32_t c);  // the \w of regular expressions

}  // namespace firstlight::text
