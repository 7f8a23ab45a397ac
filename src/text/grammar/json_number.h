// SPDX-License-Identifier: Apache-2.0
// Numbers between bounds as texts: decimal notation without an exponent, exactly the numbers that are meant.
#pragma once

#include <optional>
#include <string>

#include "text/grammar/grammar.h"

namespace firstlight::text::grammar {

// A bound in decimal notation, as its sign, digits before and digits after the point (none at the end that are 0).
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;
};

// Errors: kInvalidArgument for a text that is no plain decimal number; kUnsupported beyond 60 digits.
Result<Decimal> parse_decimal(std::string_view text);

struct NumberRange {
  std::optional<Decimal> low, high;
  bool low_is_out = false;  // exclusive
  bool high_is_out = false;
};

// All integers in the range, without leading zeros and "-0". Nothing for an empty range.
ExprId integers_between(Grammar& grammar, const NumberRange& range);
// All decimal numbers in the range.
ExprId numbers_between(Grammar& grammar, const NumberRange& range);

// Which of two is the greater: -1, 0, 1.
int compare(const Decimal& a, const Decimal& b);

}  // namespace firstlight::text::grammar
