// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/text_ops.h"

namespace firstlight::text::jinja {

std::string format_int(Int value) {
  if (value == 0) return "0";
  auto rest = static_cast<unsigned __int128>(value);
  if (value < 0) rest = -rest;
  std::string out;
  for (; rest != 0; rest /= 10) out += static_cast<char>('0' + static_cast<int>(rest % 10));
  if (value < 0) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string text(buffer.data(), end);  // d.ddde±xx
  const size_t mark = text.find('e');
  const int exponent = std::atoi(text.c_str() + mark + 1);
  const bool negative = text[0] == '-';
  std::string digits;
  for (size_t i = negative ? 1 : 0; i < mark; ++i) {
    if (text[i] != '.') digits += text[i];
  }
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

Status overflow() { return unsupported("integer result does not fit into 128 bits"); }

Result<Value> power_int(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) return invalid_data("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  if (exponent > 127) return overflow();
  Int result = 1;
  for (Int i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return overflow();
  }
  return Value::integer(result);
}

Int floor_divide(Int left, Int right) {
  const Int quotient = left / right;
  return left % right != 0 && ((left < 0) != (right < 0)) ? quotient - 1 : quotient;
}

Result<Value> compute_int(Arithmetic op, Int left, Int right) {
  Int out = 0;
  switch (op) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(left, right, &out)) return overflow();
      return Value::integer(out);
    case Arithmetic::kSub:
      if (__builtin_sub_overflow(left, right, &out)) return overflow();
      return Value::integer(out);
    case Arithmetic::kMul:
      if (__builtin_mul_overflow(left, right, &out)) return overflow();
      return Value::integer(out);
    case Arithmetic::kPow:
      return power_int(left, right);
    case Arithmetic::kDiv:
      if (right == 0) return invalid_data("division by zero");
      return Value(static_cast<double>(left) / static_cast<double>(right));
    case Arithmetic::kFloorDiv:
    case Arithmetic::kMod:
      break;
  }
  if (right == 0) return invalid_data("integer division or modulo by zero");
  if (right == -1) {  // the one quotient that may not fit
    if (op == Arithmetic::kMod) return Value::integer(0);
    if (__builtin_sub_overflow(Int{0}, left, &out)) return overflow();
    return Value::integer(out);
  }
  const Int quotient = floor_divide(left, right);
  return Value::integer(op == Arithmetic::kFloorDiv ? quotient : left - quotient * right);
}

double python_mod(double left, double right) {
  double out = std::fmod(left, right);
  if (out != 0.0) {
    if ((right < 0) != (out < 0)) out += right;
  } else {
    out = std::copysign(0.0, right);
  }
  return out;
}

double python_floor_divide(double left, double right) {
  const double mod = python_mod(left, right);
  const double quotient = (left - mod) / right;
  if (quotient == 0.0) return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

Result<Value> power_float(double left, double right) {
  if (left == 0.0 && right < 0) return invalid_data("0.0 cannot be raised to a negative power");
  if (left < 0 && std::isfinite(left) && std::isfinite(right) && std::floor(right) != right) {
    return unsupported("complex result of **");
  }
  const double out = std::pow(left, right);
  if (std::isinf(out) && std::isfinite(left) && std::isfinite(right))
    return invalid_data("(34, 'Numerical result out of range')");
  return Value(out);
}

}  // namespace

Result<Value> compute(Arithmetic op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return compute_int(op, left.as_int(), right.as_int());
  const double a = left.as_double();
  const double b = right.as_double();
  switch (op) {
    case Arithmetic::kAdd:
      return Value(a + b);
    case Arithmetic::kSub:
      return Value(a - b);
    case Arithmetic::kMul:
      return Value(a * b);
    case Arithmetic::kPow:
      return power_float(a, b);
    case Arithmetic::kDiv:
      if (b == 0.0) return invalid_data("float division by zero");
      return Value(a / b);
    case Arithmetic::kFloorDiv:
      if (b == 0.0) return invalid_data("float floor division by zero");
      return Value(python_floor_divide(a, b));
    case Arithmetic::kMod:
      break;
  }
  if (b == 0.0) return invalid_data("float modulo");
  return Value(python_mod(a, b));
}

namespace {

// The text without white space around it and without single underscores between digits; nothing if one is misplaced.
std::optional<std::string> clean_number(std::string_view text) {
  const Text stripped = strip(Text(std::string(text), false), std::nullopt, true, true);
  std::string out;
  const std::string& bytes = stripped.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_') {
      out += bytes[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < bytes.size() && std::isalnum(static_cast<unsigned char>(bytes[i - 1])) != 0 &&
                         std::isalnum(static_cast<unsigned char>(bytes[i + 1])) != 0;
    if (!between) return std::nullopt;
  }
  if (out.empty()) return std::nullopt;
  return out;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

}  // namespace

std::optional<Int> parse_int(std::string_view text, int base) {
  const std::optional<std::string> cleaned = clean_number(text);
  if (!cleaned.has_value() || base < 0 || base == 1 || base > 36) return std::nullopt;
  std::string_view digits = *cleaned;
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.remove_prefix(1);
  const auto prefixed = [&](char mark) {
    return digits.size() > 2 && digits[0] == '0' && static_cast<char>(digits[1] | 0x20) == mark;
  };
  const int found = prefixed('x') ? 16 : prefixed('o') ? 8 : prefixed('b') ? 2 : 0;
  if (found != 0 && (base == 0 || base == found)) {
    digits.remove_prefix(2);
    base = found;
  } else if (base == 0) {
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos)
      return std::nullopt;
    base = 10;
  }
  if (digits.empty()) return std::nullopt;
  Int value = 0;
  for (const char c : digits) {
    const int digit = digit_of(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Int{base}, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> cleaned = clean_number(text);
  if (!cleaned.has_value()) return std::nullopt;
  std::string_view digits = *cleaned;
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.remove_prefix(1);
  if (digits.empty() || digits.front() == '-' || digits.front() == '+') return std::nullopt;
  const std::string lower = to_lower(Text(std::string(digits), false)).bytes();
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = HUGE_VAL;
  } else if (lower == "nan") {
    value = std::nan("");
  } else {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size() ||
        std::isalpha(static_cast<unsigned char>(digits.front())) != 0) {
      return std::nullopt;
    }
    if (error == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
  }
  return negative ? -value : value;
}

Result<Int> truncate_float(double value) {
  if (std::isnan(value)) return invalid_data("cannot convert float NaN to integer");
  if (std::isinf(value)) return invalid_data("cannot convert float infinity to integer");
  if (std::fabs(value) >= 1.7e38) return overflow();
  return static_cast<Int>(value);
}

double round_float(double value, int digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::nearbyint(value / scale) * scale;
  }
  // The exact decimal expansion decides, as in Python: glibc prints it correctly rounded, halves to even.
  return std::strtod(format_c_double('f', digits, false, value).c_str(), nullptr);
}

std::string format_c_double(char type, int precision, bool alternate, double value) {
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + type;
  const int length = std::snprintf(nullptr, 0, format.c_str(), precision, value);
  std::string out(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.c_str(), precision, value);
  out.resize(static_cast<size_t>(length));
  return out;
}

}  // namespace firstlight::text::jinja
