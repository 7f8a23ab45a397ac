// SPDX-License-Identifier: Apache-2.0
// Python's format specification ("[[fill]align][sign][#][0][width][,][.precision][type]") and the formatting of single
// values by it.
#pragma once

#include "text/jinja/value.h"

namespace firstlight::text::jinja {

struct FormatSpec {
  Text fill;          // one code point; empty: not given
  char align = '\0';  // < > ^ =, 0: the type's own
  char sign = '-';    // - + or a space
  bool alternate = false;
  bool zero = false;  // pad numbers with zeros after the sign
  char group = '\0';  // , or _
  int width = 0;
  int precision = -1;
  char type = '\0';
};

Result<FormatSpec> parse_format_spec(const Text& spec);

// `value` in the style of its own type; with an empty spec that is str(value).
Result<Text> format_value(const Value& value, const FormatSpec& spec, bool has_spec);

Result<Text> format_integer(Int value, char type, const FormatSpec& spec);
Result<Text> format_double(double value, char type, const FormatSpec& spec);
// Fills up to the width, by default on the right (text) of the spec's alignment.
Result<Text> pad_text(const Text& text, const FormatSpec& spec);
// The first `precision` code points; all of them when it is negative.
Text cut(const Text& text, int precision);

}  // namespace firstlight::text::jinja
