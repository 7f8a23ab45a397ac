// SPDX-License-Identifier: Apache-2.0
// Template text to tokens, with Jinja2's default delimiters and trim_blocks and lstrip_blocks on: white space control
// (-, +), raw blocks and comments are settled here and leave no trace in the token list. Written after the behaviour of
// Jinja2 3.1's lexer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/value.h"

namespace firstlight::text::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text holds it: "+", "==", "(" …
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // names, operators, data; strings with their escapes resolved
  Int integer = 0;
  double number = 0;
};

// The tokens of `source`, a kEnd last. Errors (kInvalidData) start with "line N: ".
Result<std::vector<Token>> tokenize(std::string_view source);

Status error_at(int line, const std::string& message);

}  // namespace firstlight::text::jinja
