// SPDX-License-Identifier: Apache-2.0
// A constraint put together from parts, where an answer is more than one description: marks, thoughts, calls. Written
// as JSON, since constraints are kept by their text:
//   "text"                 the text; control tokens whose text it has in it are these tokens
//   [a, b, …]              one behind the other
//   {"any": [a, b, …]}     one of them
//   {"optional": a}, {"repeat": a} (any number)
//   {"separated": [a, {"optional": b}, …], "by": "text"}   those of them that are there, with the text between
//   {"without": "mark"}    any text in front of the first mark
//   {"json_object": ""}, {"json_schema": s}, {"regex": r}, {"choice": c}, {"grammar": g}   as ConstraintSpec's kinds,
//   with
//                          "spelling": {"plain", "quote", "mark"} of StringSpelling and "at": a reference in it beside
//                          a schema, and "of": whose it is, for messages
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace firstlight::text::grammar {

// The control tokens of a vocabulary, and how constraints see them: as bytes that no text has in it.
class ControlTokens {
 public:
  ControlTokens() = default;
  explicit ControlTokens(const Tokenizer& tokenizer);

  // The text with the tokens in it, the longest wherever several could be, in these bytes.
  std::string coded(std::string_view text) const;

 private:
  std::vector<std::pair<std::string, int32_t>> tokens_;  // longest first
};

// Errors: as those of the parts, and kInvalidArgument for JSON that is no structure.
Result<Grammar> compile_structure(std::string_view json, const ControlTokens& tokens);

}  // namespace firstlight::text::grammar
