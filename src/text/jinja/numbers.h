// SPDX-License-Identifier: Apache-2.0
// Python's arithmetic and number formatting: repr of floats, floor division and modulo with Python's signs, powers,
// banker's rounding, int() and float() of strings. Integers are 128 bits wide; what does not fit is an error, never a
// wrong number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace firstlight::text::jinja {

std::string format_int(Int value);
// repr(float): shortest digits that read back the same, "1e+16" style from 1e16 on.
std::string format_float(double value);

// One of + - * / // % ** on two numbers.
enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
Result<Value> compute(Arithmetic op, const Value& left, const Value& right);

// int(text, base) and float(text); nothing if Python would raise a ValueError.
std::optional<Int> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);
// int(float): towards zero; an error for inf, nan and what does not fit.
Result<Int> truncate_float(double value);

// round(value, digits) of Python, halves to even.
double round_float(double value, int digits);

// "%.{digits}f", "%e", "%g" as C and Python print them.
std::string format_c_double(char type, int precision, bool alternate, double value);

}  // namespace firstlight::text::jinja
