// SPDX-License-Identifier: Apache-2.0
// What a constraint is made of, whatever language it was written in: rules over UTF-8 text. The front ends (regex.h,
// ebnf.h, json_schema.h) build it, automaton.h compiles it. Expressions are numbers into one table, made once, shared
// freely, and counted against a budget: past it every call gives the empty text, and status() says why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::text::grammar {

using ExprId = int32_t;
using RuleId = int32_t;

// Code points `first` to `last`. Surrogates are never part of a text, whatever a range says.
struct CharRange {
  char32_t first = 0;
  char32_t last = 0;
};

inline constexpr char32_t kLastCodePoint = 0x10FFFF;
inline constexpr int32_t kUnbounded = -1;
inline constexpr int32_t kMostRepeats = 1'000'000;

struct Expr {
  enum class Kind : uint8_t { kText, kChars, kSequence, kChoice, kOneOf, kRepeat, kCall };
  Kind kind = Kind::kText;
  int32_t min = 0;                 // kRepeat
  int32_t max = 0;                 // kRepeat; kUnbounded
  RuleId rule = -1;                // kCall
  std::string text;                // kText
  std::vector<CharRange> ranges;   // kChars: sorted, apart from each other
  std::vector<ExprId> parts;       // kSequence, kChoice, kRepeat (one)
  std::vector<std::string> texts;  // kOneOf
};

struct Rule {
  std::string name;
  ExprId body = -1;  // -1: not defined
};

class Grammar {
 public:
  // `budget` counts expressions, their parts and bytes of text.
  explicit Grammar(size_t budget = size_t{1} << 21) : left_(budget) {}

  ExprId text(std::string_view utf8);
  ExprId chars(std::vector<CharRange> ranges);  // any order; none: nothing matches
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);       // none: nothing matches
  ExprId one_of(std::vector<std::string> texts);  // as a choice of texts, for many
  // `min` to `max` times; kUnbounded. Numbers beyond kMostRepeats set status().
  ExprId repeat(ExprId part, int32_t min, int32_t max);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId nothing() { return choice({}); }
  ExprId call(RuleId rule);

  RuleId add_rule(std::string name);
  void define(RuleId rule, ExprId body) { rules_[static_cast<size_t>(rule)].body = body; }
  // A rule of this body, called: for what is used in many places.
  ExprId shared(std::string name, ExprId body);

  // All of another grammar, as a call of its root.
  ExprId import(const Grammar& other);

  const Expr& expr(ExprId id) const { return exprs_[static_cast<size_t>(id)]; }
  const std::vector<Rule>& rules() const { return rules_; }
  RuleId root() const { return root_; }
  void set_root(RuleId rule) { root_ = rule; }

  // Errors: kInvalidArgument where the budget or a bound was exceeded.
  const Status& status() const { return status_; }

 private:
  ExprId add(Expr expr, size_t cost);

  std::vector<Expr> exprs_;
  std::vector<Rule> rules_;
  RuleId root_ = -1;
  size_t left_;
  Status status_;
};

// Any text in front of the first `mark` (not empty): the text and the mark behind it have the mark nowhere but at their
// end.
ExprId text_without(Grammar& grammar, std::string_view mark);

// Sorted, joined, without surrogates and what is beyond Unicode.
std::vector<CharRange> tidy_ranges(std::vector<CharRange> ranges);
// All code points that are not in `ranges`; tidy.
std::vector<CharRange> complement(const std::vector<CharRange>& ranges);
std::vector<CharRange> intersect(const std::vector<CharRange>& a, const std::vector<CharRange>& b);

}  // namespace firstlight::text::grammar
