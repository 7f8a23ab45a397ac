// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/numbers.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {
namespace {

constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxPrecision = 1000;

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int read_number(std::string_view text, size_t& pos) {
  int out = 0;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos)
    out = std::min(kMaxWidth + 1, out * 10 + (text[pos] - '0'));
  return out;
}

}  // namespace

Result<FormatSpec> parse_format_spec(const Text& spec) {
  FormatSpec out;
  const std::string_view view = spec.view();
  size_t pos = 0;
  const auto take = [&](char c) {
    if (pos >= view.size() || view[pos] != c) return false;
    ++pos;
    return true;
  };
  if (!view.empty()) {
    const size_t first = std::min<size_t>(view.size(), utf8_length(static_cast<unsigned char>(view[0])));
    if (first < view.size() && is_align(view[first])) {
      out.fill = spec.slice(0, first);
      out.align = view[first];
      pos = first + 1;
    } else if (is_align(view[0])) {
      out.align = view[0];
      pos = 1;
    }
  }
  if (take('+'))
    out.sign = '+';
  else if (take(' '))
    out.sign = ' ';
  else
    take('-');
  out.alternate = take('#');
  out.zero = take('0');
  out.width = read_number(view, pos);
  if (take(','))
    out.group = ',';
  else if (take('_'))
    out.group = '_';
  if (take('.')) {
    const size_t start = pos;
    out.precision = read_number(view, pos);
    if (pos == start) return invalid_data("Format specifier missing precision");
  }
  if (pos < view.size()) out.type = view[pos++];
  if (pos < view.size()) return invalid_data("Invalid format specifier");
  return out;
}

Text cut(const Text& text, int precision) {
  if (precision < 0) return text;
  return text.slice(0, code_point_offset(text.view(), static_cast<size_t>(precision)));
}

Result<Text> pad_text(const Text& text, const FormatSpec& spec) {
  if (spec.width > kMaxWidth) return unsupported("format width over " + std::to_string(kMaxWidth));
  const auto length = count_code_points(text.view());
  if (static_cast<size_t>(spec.width) <= length) return text;
  const size_t missing = static_cast<size_t>(spec.width) - length;
  const size_t left = spec.align == '>' || spec.align == '=' ? missing : spec.align == '^' ? missing / 2 : 0;
  Text out = repeat(spec.fill, left);
  out.append(text);
  out.append(repeat(spec.fill, missing - left));
  return out;
}

namespace {

std::string group_digits(std::string_view digits, char mark, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += mark;
    out += digits[i];
  }
  return out;
}

// Sign, prefix, digits (grouped) and tail put together and padded.
Result<Text> assemble(bool negative, std::string_view prefix, std::string digits, std::string_view tail,
                      const FormatSpec& spec) {
  const size_t every = !prefix.empty() || spec.type == 'x' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const bool zero_fill = spec.zero && spec.align == '\0';
  const bool after_sign = zero_fill || spec.align == '=' || (spec.zero && spec.align == '>');
  if (spec.width > kMaxWidth) return unsupported("format width over " + std::to_string(kMaxWidth));
  const bool zeros = zero_fill || (spec.zero && (spec.align == '>' || spec.align == '=') && spec.fill.view() == " ");
  const size_t fixed = sign.size() + prefix.size() + tail.size();
  const auto width = static_cast<size_t>(spec.width);
  std::string shown = spec.group != '\0' ? group_digits(digits, spec.group, every) : digits;
  while (zeros && fixed + shown.size() < width) {
    digits.insert(0, 1, '0');
    const std::string next = spec.group != '\0' ? group_digits(digits, spec.group, every) : digits;
    if (spec.group == '\0') {
      digits.insert(0, width - fixed - next.size(), '0');
      shown = digits;
      break;
    }
    shown = next;
  }
  const bool fill_trusted = spec.fill.is_trusted();
  if (after_sign && fixed + shown.size() < width) {
    Text out(sign + std::string(prefix), false);
    out.append(repeat(spec.fill, width - fixed - shown.size()));
    out.append(shown + std::string(tail), false);
    return out;
  }
  FormatSpec outer = spec;
  if (outer.align == '\0') outer.align = '>';
  if (outer.fill.empty()) outer.fill = Text(" ", fill_trusted);
  return pad_text(Text(sign + std::string(prefix) + shown + std::string(tail), false), outer);
}

}  // namespace

Result<Text> format_integer(Int value, char type, const FormatSpec& spec) {
  const bool negative = value < 0;
  auto rest = static_cast<unsigned __int128>(value);
  if (negative) rest = -rest;
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const std::string_view alphabet = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += alphabet[static_cast<size_t>(rest % base)];
    rest /= base;
  } while (rest != 0);
  if (spec.precision > kMaxPrecision) return unsupported("format precision over " + std::to_string(kMaxPrecision));
  while (static_cast<int>(digits.size()) < spec.precision) digits += '0';  // % formatting only
  std::reverse(digits.begin(), digits.end());
  const std::string prefix = spec.alternate && base != 10 ? std::string("0") + type : "";
  return assemble(negative, prefix, std::move(digits), "", spec);
}

Result<Text> format_double(double value, char type, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) return unsupported("format precision over " + std::to_string(kMaxPrecision));
  const bool percent = type == '%';
  const double magnitude = std::fabs(percent ? value * 100 : value);
  const bool negative = std::signbit(value) && !std::isnan(value);
  if (!std::isfinite(magnitude)) {
    const bool upper = type == 'F' || type == 'E' || type == 'G';
    const std::string word = std::isnan(magnitude) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    FormatSpec plain = spec;
    plain.group = '\0';
    return assemble(negative, "", word, percent ? "%" : "", plain);
  }
  std::string text;
  if (type == '\0' && spec.precision < 0) {
    text = format_float(magnitude);
  } else if (type == '\0') {  // like g, but with at least one digit behind the point
    text = format_c_double('g', std::max(1, spec.precision), spec.alternate, magnitude);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
  } else {
    text = format_c_double(percent       ? 'f'
                           : type == 'n' ? 'g'
                                         : type,
                           spec.precision < 0 ? 6 : spec.precision, spec.alternate, magnitude);
  }
  const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  return assemble(negative, "", text.substr(0, whole), text.substr(whole) + (percent ? "%" : ""), spec);
}

namespace {

Result<Text> format_string(const Value& value, const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's') {
    return invalid_data(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  }
  if (spec.align == '=' || spec.sign != '-' || spec.alternate || spec.group != '\0') {
    return invalid_data("format specification not allowed for strings");
  }
  FormatSpec padded = spec;
  if (padded.align == '\0') padded.align = '<';
  if (spec.zero && spec.fill.view() == " ") padded.fill = Text("0", spec.fill.is_trusted());
  return pad_text(cut(value.as_text(), spec.precision), padded);
}

Result<Text> format_number(const Value& value, const FormatSpec& spec) {
  static constexpr std::string_view kFloatTypes = "eEfFgG%";
  if (kFloatTypes.find(spec.type) != std::string_view::npos || (value.kind() == Kind::kFloat && spec.type == '\0')) {
    return format_double(value.as_double(), spec.type, spec);
  }
  const bool integral = spec.type == '\0' || std::string_view("dxXob").find(spec.type) != std::string_view::npos;
  if (!integral || !value.is_integral()) {
    if (spec.type == 'n' || spec.type == 'c') return unsupported(std::string("format code '") + spec.type + "'");
    return invalid_data(std::string("Unknown format code '") + spec.type + "' for object of type '" + type_name(value) +
                        "'");
  }
  if (spec.precision >= 0) return invalid_data("Precision not allowed in integer format specifier");
  return format_integer(value.as_int(), spec.type == '\0' ? 'd' : spec.type, spec);
}

}  // namespace

Result<Text> format_value(const Value& value, const FormatSpec& spec, bool has_spec) {
  if (!has_spec) return to_text(value);
  if (value.is_string()) return format_string(value, spec);
  if (value.is_number()) return format_number(value, spec);
  return invalid_data("unsupported format string passed to " + type_name(value) + ".__format__");
}

}  // namespace firstlight::text::jinja
