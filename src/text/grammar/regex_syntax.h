// SPDX-License-Identifier: Apache-2.0
// Regular expressions, as far as they describe regular languages: characters, ., classes, \d \w \s (ASCII) and their
// opposites, groups (named or not, all alike), |, * + ? {n} {n,} {n,m} (lazy ones match the same texts), ^ and $ at the
// ends. Look-around, back references, word boundaries, possessive repeats, flags and Unicode properties are refused.
#pragma once

#include <string>
#include <string_view>

#include "text/grammar/grammar.h"

namespace firstlight::text::grammar {

// How the characters of a text are written in the output: as they are, or inside a JSON string (the shortest escapes
// where one is needed).
enum class Alphabet : uint8_t { kText, kJsonString };

// A text as it stands inside a JSON string.
std::string json_spelled(std::string_view utf8);
// One character of a set, in the alphabet.
ExprId spelled_chars(Grammar& grammar, std::vector<CharRange> ranges, Alphabet alphabet);

struct RegexOptions {
  Alphabet alphabet = Alphabet::kText;
  // false: the expression is the whole text, and ^ and $ change nothing. true: it has to be found somewhere in the
  // text, except where ^ and $ hold its ends.
  bool search = false;
  char32_t without = 0;  // a character that the text may not have; 0: all may be in it
};

// Errors: kInvalidArgument (malformed) and kUnsupported, with the byte's place in the pattern.
Result<ExprId> parse_regex(Grammar& grammar, std::string_view pattern, RegexOptions options);

}  // namespace firstlight::text::grammar
