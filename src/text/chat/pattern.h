// SPDX-License-Identifier: Apache-2.0
// The little pattern language in which chat formats (chat_formats/*.toml) say how a call is written:
// "<call>{name}<args>{arguments}</call>". Text stands for itself, white space for any white space or none, a hole for
// what differs from call to call. Matching works on the beginning of a stream that may not be there in full yet.
// docs/chat_formats.md says what each hole takes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::text {

enum class Hole : uint8_t {
  // Short ones; what they took is a capture.
  kName,
  kId,
  kIndex,
  kKey,
  kType,
  kString,
  kAny,
  // Bodies, at most one in a pattern: read by others (call_reader.h).
  kValue,
  kArguments,
  kLoose,
  kParameters,
  kCall,
  kCalls,
  kPython,
};
inline constexpr size_t kNumCaptures = static_cast<size_t>(Hole::kAny) + 1;
using Captures = std::array<std::string, kNumCaptures>;

struct PatternPart {
  enum class Kind : uint8_t { kLiteral, kSpace, kHole };
  Kind kind = Kind::kLiteral;
  std::string text;  // of a literal, or the white space as written
  Hole hole = Hole::kAny;
};

struct Pattern {
  std::string source;
  std::vector<PatternPart> head, tail;  // before and after the body; without one all is head
  bool has_body = false;
  Hole body = Hole::kAny;
  std::string before_body, after_body;  // white space as written there, which is skipped where it is read

  // Where it can begin: its first literal, or "" when it begins with a hole.
  std::string_view opener() const;

  // Errors: kInvalidData for an unknown hole, a second body, a short hole with no text or body behind it.
  static Result<Pattern> parse(std::string_view source);
};

enum class Match : uint8_t { kNo, kMore, kYes };

// Whether `text` begins with the parts; kMore when it may once there is more of it (never with `over`: nothing will
// come). `length` is what they take.
Match match_parts(std::span<const PatternPart> parts, std::string_view text, bool over, Captures& captures,
                  size_t& length);

// A literal at the beginning of `text`.
Match match_literal(std::string_view literal, std::string_view text, bool over);

// How many bytes at the end of `text` may be the beginning of `literal`.
size_t open_end(std::string_view literal, std::string_view text);

bool is_blank(char c);
size_t skip_blanks(std::string_view text, size_t at = 0);  // the first position from `at` that is none
std::string_view trim_blanks(std::string_view text);

}  // namespace firstlight::text
