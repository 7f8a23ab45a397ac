// SPDX-License-Identifier: Apache-2.0
// Tokens to a syntax tree: Jinja2 3.1's grammar with the extensions transformers turns on (break, continue,
// generation). Refused here, with construct and line: include, import, from, extends, autoescape, and nesting past the
// limit.
#pragma once

#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace firstlight::text::jinja {

inline constexpr int kMaxTreeDepth = 200;

// Errors: kInvalidData (syntax), kUnsupported (a refused construct); messages start with "line N: ".
Result<Tree> parse(std::vector<Token> tokens);

}  // namespace firstlight::text::jinja
