// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_number.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace firstlight::text::grammar {
namespace {

constexpr size_t kMostDigits = 60;

int compare_whole(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

int compare_size(const Decimal& a, const Decimal& b) {
  const int whole = compare_whole(a.whole, b.whole);
  if (whole != 0) return whole;
  return a.fraction < b.fraction ? -1 : a.fraction > b.fraction ? 1 : 0;
}

bool is_zero(const Decimal& a) { return a.whole == "0" && a.fraction.empty(); }

std::string plus_one(std::string digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) return "1" + digits;
  ++digits[i - 1];
  return digits;
}

std::string minus_one(std::string digits) {  // of 1 or more
  size_t i = digits.size();
  while (digits[i - 1] == '0') digits[--i] = '9';
  --digits[i - 1];
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

// Texts of digits between bounds that are not negative.
class Digits {
 public:
  explicit Digits(Grammar& grammar) : grammar_(grammar) {}

  // Integers from `low` to `high` (none: no bound).
  ExprId wholes(const std::string& low, const std::optional<std::string>& high) {
    if (high && compare_whole(low, *high) > 0) return grammar_.nothing();
    std::vector<ExprId> ways;
    if (high && high->size() == low.size()) return same_length(low, *high, 0, true, true);
    ways.push_back(same_length(low, std::string(low.size(), '9'), 0, true, false));
    // Lengths in between, or all longer ones.
    const auto shortest = static_cast<int32_t>(low.size());
    const int32_t longest = high ? static_cast<int32_t>(high->size()) - 2 : kUnbounded;
    if (!high || longest >= shortest) {
      ways.push_back(grammar_.sequence({digit('1', '9'), grammar_.repeat(digit('0', '9'), shortest, longest)}));
    }
    if (high) ways.push_back(same_length("1" + std::string(high->size() - 1, '0'), *high, 0, true, true));
    return grammar_.choice(std::move(ways));
  }

  // "", or a point and digits: fractions from `low` to `high`.
  struct Bound {
    std::string digits;
    bool is_out = false;
  };
  ExprId fractions(const std::optional<Bound>& low, const std::optional<Bound>& high) {
    std::vector<ExprId> ways = {grammar_.sequence({grammar_.text("."), more(0, low, high)})};
    if (may_stop(0, low, high)) ways.push_back(grammar_.text(""));
    return grammar_.choice(std::move(ways));
  }

 private:
  ExprId digit(char first, char last) {
    if (first > last) return grammar_.nothing();
    return grammar_.chars({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
  }
  ExprId digits(int32_t min, int32_t max) { return grammar_.repeat(digit('0', '9'), min, max); }

  // Of as many digits as both have: from place i on, bound by what is still equal to a bound so far.
  ExprId same_length(const std::string& low, const std::string& high, size_t i, bool at_low, bool at_high) {
    const auto left = static_cast<int32_t>(low.size() - i);
    if (left == 0) return grammar_.text("");
    if (!at_low && !at_high) return digits(left, left);
    const char first = at_low ? low[i] : '0';
    const char last = at_high ? high[i] : '9';
    if (first > last) return grammar_.nothing();
    if (first == last) {
      return grammar_.sequence({digit(first, first), same_length(low, high, i + 1, at_low, at_high)});
    }
    std::vector<ExprId> ways;
    char from = first, to = last;
    if (at_low) ways.push_back(grammar_.sequence({digit(from, from), same_length(low, high, i + 1, true, false)}));
    if (at_low) ++from;
    if (at_high) ways.push_back(grammar_.sequence({digit(to, to), same_length(low, high, i + 1, false, true)}));
    if (at_high) --to;
    if (from <= to) ways.push_back(grammar_.sequence({digit(from, to), digits(left - 1, left - 1)}));
    return grammar_.choice(std::move(ways));
  }

  static bool may_stop(size_t i, const std::optional<Bound>& low, const std::optional<Bound>& high) {
    if (low && (i < low->digits.size() || low->is_out)) return false;
    return !high || i < high->digits.size() || !high->is_out;
  }

  // At least one more digit, from place i on; bounds that are there have been equal so far.
  ExprId more(size_t i, const std::optional<Bound>& low, const std::optional<Bound>& high) {
    if (!low && !high) return digits(1, kUnbounded);
    const bool past_low = !low || i >= low->digits.size();
    const bool past_high = !high || i >= high->digits.size();
    if (past_low && past_high) return beyond(low, high);
    const char first = low && !past_low ? low->digits[i] : '0';
    const char last = !high ? '9' : past_high ? '0' : high->digits[i];
    std::vector<ExprId> ways;
    for (char d = first; d <= last; ++d) {
      const auto next_low = low && d == first ? low : std::nullopt;
      const auto next_high = high && d == last ? high : std::nullopt;
      std::vector<ExprId> rest = {more(i + 1, next_low, next_high)};
      if (may_stop(i + 1, next_low, next_high)) rest.push_back(grammar_.text(""));
      ways.push_back(grammar_.sequence({digit(d, d), grammar_.choice(std::move(rest))}));
    }
    return grammar_.choice(std::move(ways));
  }

  // All digits of the bounds were matched: zeros keep the value, anything else makes it more.
  ExprId beyond(const std::optional<Bound>& low, const std::optional<Bound>& high) {
    const ExprId zeros = grammar_.repeat(grammar_.text("0"), 1, kUnbounded);
    if (high) return high->is_out || (low && low->is_out) ? grammar_.nothing() : zeros;
    if (!low->is_out) return digits(1, kUnbounded);
    return grammar_.sequence(
        {grammar_.repeat(grammar_.text("0"), 0, kUnbounded), digit('1', '9'), digits(0, kUnbounded)});
  }

  Grammar& grammar_;
};

// The range's numbers of one sign, by their size.
struct SizeRange {
  Decimal low;
  bool low_is_out = false;
  std::optional<Decimal> high;
  bool high_is_out = false;
};

std::optional<SizeRange> sizes_of(const NumberRange& range, bool negative) {
  const auto& near = negative ? range.high : range.low;
  const auto& far = negative ? range.low : range.high;
  const bool near_is_out = negative ? range.high_is_out : range.low_is_out;
  const bool far_is_out = negative ? range.low_is_out : range.high_is_out;
  SizeRange sizes;
  if (near && (near->negative == negative || is_zero(*near))) {
    sizes.low = *near;
    sizes.low_is_out = near_is_out;
  }
  if (far) {
    if (far->negative != negative && !is_zero(*far)) return std::nullopt;
    if (is_zero(*far) && (far_is_out || negative)) return std::nullopt;
    sizes.high = *far;
    sizes.high_is_out = far_is_out;
  }
  return sizes;
}

ExprId whole_sizes(Grammar& grammar, const SizeRange& sizes, bool negative) {
  std::string low = sizes.low.whole;
  if (sizes.low_is_out || !sizes.low.fraction.empty()) low = plus_one(low);
  if (negative && low == "0") low = "1";
  if (!sizes.high) return Digits(grammar).wholes(low, std::nullopt);
  std::string high = sizes.high->whole;
  if (sizes.high_is_out && sizes.high->fraction.empty()) {
    if (high == "0") return grammar.nothing();
    high = minus_one(high);
  }
  return Digits(grammar).wholes(low, high);
}

ExprId number_sizes(Grammar& grammar, const SizeRange& sizes) {
  Digits digits(grammar);
  using Bound = Digits::Bound;
  const Bound low{sizes.low.fraction, sizes.low_is_out};
  if (!sizes.high) {
    return grammar.choice(
        {grammar.sequence({grammar.text(sizes.low.whole), digits.fractions(low, std::nullopt)}),
         grammar.sequence({digits.wholes(plus_one(sizes.low.whole), std::nullopt), digits.fractions({}, {})})});
  }
  const Bound high{sizes.high->fraction, sizes.high_is_out};
  const int order = compare_whole(sizes.low.whole, sizes.high->whole);
  if (order > 0) return grammar.nothing();
  if (order == 0) return grammar.sequence({grammar.text(sizes.low.whole), digits.fractions(low, high)});
  std::vector<ExprId> ways = {
      grammar.sequence({grammar.text(sizes.low.whole), digits.fractions(low, std::nullopt)}),
      grammar.sequence({grammar.text(sizes.high->whole), digits.fractions(std::nullopt, high)})};
  const std::string after = plus_one(sizes.low.whole), before = minus_one(sizes.high->whole);
  if (compare_whole(after, before) <= 0) {
    ways.push_back(grammar.sequence({digits.wholes(after, before), digits.fractions({}, {})}));
  }
  return grammar.choice(std::move(ways));
}

}  // namespace

Result<Decimal> parse_decimal(std::string_view text) {
  Decimal out;
  std::string_view rest = text;
  if (rest.starts_with('-')) {
    out.negative = true;
    rest.remove_prefix(1);
  }
  const size_t point = std::min(rest.find('.'), rest.size());
  out.whole = std::string(rest.substr(0, point));
  out.fraction = std::string(rest.substr(std::min(point + 1, rest.size())));
  const std::string all = out.whole + out.fraction;
  if (out.whole.empty() || all.find_first_not_of("0123456789") != std::string::npos) {
    return invalid_argument("'" + std::string(text.substr(0, 40)) + "' is no decimal number");
  }
  if (all.size() > kMostDigits) return unsupported("a bound of more than " + std::to_string(kMostDigits) + " digits");
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (is_zero(out)) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_size(b, a) : compare_size(a, b);
}

ExprId integers_between(Grammar& grammar, const NumberRange& range) {
  std::vector<ExprId> ways;
  if (const auto sizes = sizes_of(range, false)) ways.push_back(whole_sizes(grammar, *sizes, false));
  if (const auto sizes = sizes_of(range, true)) {
    ways.push_back(grammar.sequence({grammar.text("-"), whole_sizes(grammar, *sizes, true)}));
  }
  return grammar.choice(std::move(ways));
}

ExprId numbers_between(Grammar& grammar, const NumberRange& range) {
  std::vector<ExprId> ways;
  if (const auto sizes = sizes_of(range, false)) ways.push_back(number_sizes(grammar, *sizes));
  if (const auto sizes = sizes_of(range, true)) {
    ways.push_back(grammar.sequence({grammar.text("-"), number_sizes(grammar, *sizes)}));
  }
  return grammar.choice(std::move(ways));
}

}  // namespace firstlight::text::grammar
