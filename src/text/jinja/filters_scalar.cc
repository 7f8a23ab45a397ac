// SPDX-License-Identifier: Apache-2.0
// Filters on single values: numbers, defaults, attributes, JSON.
#include <cmath>

#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/tojson.h"

namespace firstlight::text::jinja {
namespace {

Result<Value> f_default(Runtime&, const Value& value, const Bound& args) {
  const bool replace = value.is_undefined() || (args.flag(1, false) && !is_truthy(value));
  return replace ? args.value_or(0, Value(Text())) : value;
}

Result<Value> f_abs(Runtime&, const Value& value, const Bound&) {
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (!value.is_number()) return invalid_data("bad operand type for abs(): '" + type_name(value) + "'");
  if (value.kind() == Kind::kFloat) return Value(std::fabs(value.as_double()));
  return value.as_int() < 0 ? negate(value, true) : Result<Value>(Value::integer(value.as_int()));
}

Result<Value> f_int(Runtime&, const Value& value, const Bound& args) {
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (value.is_integral()) return Value::integer(value.as_int());
  const Value fallback = args.value_or(0, Value::integer(0));
  if (value.kind() == Kind::kFloat) {
    if (std::isnan(value.as_double())) return fallback;
    return Value::integer(FL_TRY(truncate_float(value.as_double())));
  }
  if (!value.is_string()) return fallback;
  const int64_t base = FL_TRY(args.integer(1, 10));
  if (base < 0 || base > 36) return fallback;
  if (const std::optional<Int> whole = parse_int(value.as_view(), static_cast<int>(base)))
    return Value::integer(*whole);
  const std::optional<double> number = parse_float(value.as_view());
  if (!number || !std::isfinite(*number)) return fallback;
  return Value::integer(FL_TRY(truncate_float(*number)));
}

Result<Value> f_float(Runtime&, const Value& value, const Bound& args) {
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (value.is_number()) return Value(value.as_double());
  const std::optional<double> number = value.is_string() ? parse_float(value.as_view()) : std::nullopt;
  return number ? Value(*number) : args.value_or(0, Value(0.0));
}

// An int stays one under "common", as Python's round(int, n).
Result<Value> round_int(Int value, int64_t precision) {
  if (precision >= 0) return Value::integer(value);
  if (precision < -37) return Value::integer(0);
  Int scale = 1;
  for (int64_t i = 0; i > precision; --i) scale *= 10;
  const Int rest = ((value % scale) + scale) % scale;
  const Int low = value - rest;
  const bool up = 2 * rest > scale || (2 * rest == scale && (low / scale) % 2 != 0);
  return Value::integer(up ? low + scale : low);
}

Result<Value> f_round(Runtime&, const Value& value, const Bound& args) {
  const Text method = FL_TRY(args.text(1)).value_or(Text("common", true));
  if (method.view() != "common" && method.view() != "ceil" && method.view() != "floor") {
    return invalid_data("method must be common, ceil or floor");
  }
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (!value.is_number()) return invalid_data("type " + type_name(value) + " doesn't define __round__ method");
  const int64_t precision = std::clamp<int64_t>(FL_TRY(args.integer(0, 0)), -400, 400);
  if (method.view() == "common") {
    if (value.is_integral()) return round_int(value.as_int(), precision);
    return Value(round_float(value.as_double(), static_cast<int>(precision)));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * scale;
  return Value((method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> f_filesizeformat(Runtime&, const Value& value, const Bound& args) {
  std::optional<double> bytes;
  if (value.is_number()) bytes = value.as_double();
  if (value.is_string()) bytes = parse_float(value.as_view());
  if (!bytes) return invalid_data("filesizeformat: a number is wanted, not '" + type_name(value) + "'");
  const bool binary = args.flag(0, false);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return Value::string("1 Byte", false);
  if (*bytes < base) return Value::string(format_int(FL_TRY(truncate_float(*bytes))) + " Bytes", false);
  const std::string_view prefixes = binary ? "KMGTPEZY" : "kMGTPEZY";
  double unit = base;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < prefixes.size()) continue;
    return Value::string(
        format_c_double('f', 1, false, base * *bytes / unit) + " " + prefixes[i] + (binary ? "iB" : "B"), false);
  }
  return internal_error("filesizeformat");
}

Result<Value> f_attr(Runtime& runtime, const Value& value, const Bound& args) {
  const std::optional<Text> name = FL_TRY(args.text(0));
  if (!name) return invalid_data("attribute name must be string, not 'NoneType'");
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  std::optional<Value> found = FL_TRY(get_attr_only(value, name->bytes()));
  if (found.has_value()) return *std::move(found);
  static_cast<void>(runtime);
  return Value::undefined("'" + type_name(value) + " object' has no attribute '" + name->bytes() + "'");
}

Result<Value> f_tojson(Runtime& runtime, const Value& value, const Bound& args) {
  return to_json(runtime, value, FL_TRY(json_style(args)));
}

constexpr FilterRow kRows[] = {
    {"default", "default_value boolean", 0, f_default},
    {"d", "default_value boolean", 0, f_default},
    {"abs", "", 0, f_abs},
    {"int", "default base", 0, f_int},
    {"float", "default", 0, f_float},
    {"round", "precision method", 0, f_round},
    {"filesizeformat", "binary", 0, f_filesizeformat},
    {"attr", "name", 1, f_attr},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, f_tojson},
};

}  // namespace

std::span<const FilterRow> scalar_filters() { return kRows; }

}  // namespace firstlight::text::jinja
