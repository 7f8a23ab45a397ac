// SPDX-License-Identifier: Apache-2.0
// The parts that JSON output is written from: strings, numbers, any value, formats. Output is compact: one space may
// follow a comma or colon, there is no other white space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "text/grammar/grammar.h"

namespace firstlight::text::grammar {

// JSON's own strings, or what some formats of tool calls have in their place.
struct StringSpelling {
  bool plain = false;  // without escapes, between two `quote`s; keys are bare words
  std::string quote;   // bytes of the grammar
  std::string mark;    // text that ends what it stands in: no string (of a plain document: no text of one) has it in it
};

class JsonText {
 public:
  explicit JsonText(Grammar& grammar, StringSpelling strings = {});

  ExprId comma();
  ExprId colon();
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  // Characters counted as code points; every escape is allowed.
  ExprId string(int32_t min, int32_t max);
  ExprId any_number();   // an exponent has at most two digits
  ExprId any_integer();  // digits alone
  // A string that matches (`search`: in which a match is found).
  Result<ExprId> pattern(std::string_view regex, bool search);
  ExprId constant(const Json& value);  // in one spelling
  ExprId one_of(const Json& values);
  ExprId key(const std::string& name);
  // Any key that is none of these, without escapes.
  ExprId other_key(const std::vector<std::string>& names);
  // A string that matches; nothing for a format that is not known.
  std::optional<Result<ExprId>> format(std::string_view name);

 private:
  ExprId quoted(ExprId body);
  ExprId plain_string(int32_t min, int32_t max);
  std::string spelled(const std::string& text) const;
  ExprId string_constant(const std::string& text);
  ExprId any_key();
  ExprId escape();
  ExprId list_of(ExprId item, std::string_view open, std::string_view close);

  Grammar& grammar_;
  StringSpelling strings_;
  char32_t barred_ = 0;                // the first character of the mark
  std::vector<CharRange> characters_;  // what a string may hold without an escape
  std::vector<CharRange> key_characters_;
  RuleId value_ = -1;
  ExprId comma_ = -1, colon_ = -1, string_ = -1, character_ = -1, escape_ = -1, number_ = -1, integer_ = -1,
         object_ = -1, array_ = -1;
};

}  // namespace firstlight::text::grammar
