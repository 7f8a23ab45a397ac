// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;
constexpr char32_t kBeforeSurrogates = kFirstSurrogate - 1;
constexpr char32_t kAfterSurrogates = kLastSurrogate + 1;

}  // namespace

std::vector<CharRange> tidy_ranges(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  std::vector<CharRange> tidy;
  const auto add = [&](char32_t first, char32_t last) {
    if (first > last) return;
    if (!tidy.empty() && first <= tidy.back().last + 1) {
      tidy.back().last = std::max(tidy.back().last, last);
    } else {
      tidy.push_back({first, last});
    }
  };
  for (CharRange range : ranges) {
    range.last = std::min(range.last, kLastCodePoint);
    add(range.first, std::min(range.last, kBeforeSurrogates));
    add(std::max(range.first, kAfterSurrogates), range.last);
  }
  return tidy;
}

std::vector<CharRange> complement(const std::vector<CharRange>& ranges) {
  std::vector<CharRange> others;
  char32_t next = 0;
  for (const CharRange& range : tidy_ranges(ranges)) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  return tidy_ranges(std::move(others));
}

std::vector<CharRange> intersect(const std::vector<CharRange>& a, const std::vector<CharRange>& b) {
  std::vector<CharRange> both;
  for (const CharRange& x : a) {
    for (const CharRange& y : b) {
      const char32_t first = std::max(x.first, y.first);
      const char32_t last = std::min(x.last, y.last);
      if (first <= last) both.push_back({first, last});
    }
  }
  return tidy_ranges(std::move(both));
}

ExprId Grammar::add(Expr expr, size_t cost) {
  if (exprs_.empty()) exprs_.emplace_back();  // 0: the empty text
  if (!status_.ok()) return 0;
  if (cost + 1 > left_) {
    status_ = invalid_argument("the constraint is too large");
    return 0;
  }
  left_ -= cost + 1;
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size()) - 1;
}

ExprId Grammar::text(std::string_view utf8) {
  return add({.kind = Expr::Kind::kText, .text = std::string(utf8), .ranges = {}, .parts = {}, .texts = {}},
             utf8.size());
}

ExprId Grammar::chars(std::vector<CharRange> ranges) {
  ranges = tidy_ranges(std::move(ranges));
  const size_t cost = ranges.size() * 4;
  return add({.kind = Expr::Kind::kChars, .text = {}, .ranges = std::move(ranges), .parts = {}, .texts = {}}, cost);
}

ExprId Grammar::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  const size_t cost = parts.size();
  return add({.kind = Expr::Kind::kSequence, .text = {}, .ranges = {}, .parts = std::move(parts), .texts = {}}, cost);
}

ExprId Grammar::choice(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  const size_t cost = parts.size();
  return add({.kind = Expr::Kind::kChoice, .text = {}, .ranges = {}, .parts = std::move(parts), .texts = {}}, cost);
}

ExprId Grammar::one_of(std::vector<std::string> texts) {
  size_t cost = texts.size();
  for (const std::string& text : texts) cost += text.size();
  return add({.kind = Expr::Kind::kOneOf, .text = {}, .ranges = {}, .parts = {}, .texts = std::move(texts)}, cost);
}

ExprId Grammar::repeat(ExprId part, int32_t min, int32_t max) {
  if (min > kMostRepeats || max > kMostRepeats) {
    if (status_.ok()) {
      status_ = invalid_argument("a repeat of " + std::to_string(std::max(min, max)) + ", at most " +
                                 std::to_string(kMostRepeats) + " wanted");
    }
    return 0;
  }
  if (max != kUnbounded && max < min) return nothing();
  if (max == 0) return text("");
  if (min == 1 && max == 1) return part;
  // A repeat of repeats is one repeat where every number of times between the ends can be had.
  const Expr& inner = expr(part);
  if (status_.ok() && inner.kind == Expr::Kind::kRepeat) {
    const int64_t low = inner.min, high = inner.max;
    const bool no_gaps =
        high == kUnbounded || min == max || (min == 0 ? low <= 1 : (min + int64_t{1}) * low <= min * high + 1);
    const bool endless = high == kUnbounded || max == kUnbounded;
    const int64_t most = endless ? kUnbounded : high * max;
    if (no_gaps && (min > 0 || low <= 1) && low * min <= kMostRepeats && most <= kMostRepeats) {
      return repeat(inner.parts[0], static_cast<int32_t>(low * min), static_cast<int32_t>(most));
    }
  }
  return add(
      {.kind = Expr::Kind::kRepeat, .min = min, .max = max, .text = {}, .ranges = {}, .parts = {part}, .texts = {}}, 1);
}

ExprId Grammar::call(RuleId rule) {
  return add({.kind = Expr::Kind::kCall, .rule = rule, .text = {}, .ranges = {}, .parts = {}, .texts = {}}, 1);
}

RuleId Grammar::add_rule(std::string name) {
  rules_.push_back({.name = std::move(name)});
  return static_cast<RuleId>(rules_.size()) - 1;
}

ExprId Grammar::shared(std::string name, ExprId body) {
  const RuleId rule = add_rule(std::move(name));
  define(rule, body);
  return call(rule);
}

ExprId Grammar::import(const Grammar& other) {
  if (exprs_.empty()) exprs_.emplace_back();  // add() would put it in front of what is counted from here
  if (status_.ok()) status_ = other.status_;
  const auto first_expr = static_cast<ExprId>(exprs_.size());
  const auto first_rule = static_cast<RuleId>(rules_.size());
  for (Expr expr : other.exprs_) {
    size_t cost = expr.text.size() + 4 * expr.ranges.size() + expr.parts.size() + expr.texts.size();
    for (const std::string& text : expr.texts) cost += text.size();
    for (ExprId& part : expr.parts) part += first_expr;
    if (expr.kind == Expr::Kind::kCall) expr.rule += first_rule;
    add(std::move(expr), cost);
  }
  for (Rule rule : other.rules_) {
    if (rule.body >= 0) rule.body += first_expr;
    rules_.push_back(std::move(rule));
  }
  return call(first_rule + other.root_);
}

ExprId text_without(Grammar& grammar, std::string_view mark) {
  std::vector<char32_t> points;
  std::vector<std::string> beginnings;  // of the mark, without itself
  for (size_t pos = 0; pos < mark.size();) {
    const CodePoint point = decode_utf8(mark, pos);
    points.push_back(point.value);
    pos += point.length;
    if (pos < mark.size()) beginnings.emplace_back(mark.substr(0, pos));
  }
  const auto but = [&](char32_t c) { return grammar.chars(complement({{points[0], points[0]}, {c, c}})); };
  const ExprId plain = but(points[0]);
  const bool is_once = std::count(points.begin(), points.end(), points[0]) == 1;
  if (!is_once || points.size() == 1) return grammar.repeat(plain, 0, kUnbounded);  // a little narrower
  // A beginning of the mark breaks off with another character, or with another beginning.
  ExprId broken = but(points.back());
  for (size_t i = points.size() - 1; i-- > 1;) {
    std::string one;
    append_utf8(one, points[i]);
    broken = grammar.choice({but(points[i]), grammar.sequence({grammar.text(one), broken})});
  }
  std::string first;
  append_utf8(first, points[0]);
  const ExprId again = grammar.repeat(grammar.one_of(std::move(beginnings)), 0, kUnbounded);
  const ExprId stretch = grammar.choice({plain, grammar.sequence({again, grammar.text(first), broken})});
  return grammar.sequence({grammar.repeat(stretch, 0, kUnbounded), again});
}

}  // namespace firstlight::text::grammar
