// SPDX-License-Identifier: Apache-2.0
#include "ops/attributes.h"

#include <array>
#include <charconv>

#include "base/check.h"
#include "ops/quoting.h"

namespace firstlight::ops {
namespace {

constexpr std::array<std::string_view, 8> kTypeNames = {"bool", "int",    "float",      "string",
                                                        "ints", "floats", "expression", "expressions"};

template <typename T>
const T& get(const Attributes& attributes, std::string_view name) {
  const Attribute* value = attributes.find(name);
  FL_CHECK(value != nullptr && std::holds_alternative<T>(*value));
  return std::get<T>(*value);
}

template <typename T, typename F>
std::string list(const std::vector<T>& values, std::string_view empty_prefix, F&& print) {
  if (values.empty()) return std::string(empty_prefix) + "[]";
  std::string out = "[";
  for (const T& value : values) out += (out.size() > 1 ? ", " : "") + print(value);
  return out + "]";
}

// A formula that is one constant would read as a number.
std::string expression_text(const Expression& expression) {
  const bool is_constant = expression.terms().size() == 1 && expression.terms()[0].op == ExprOp::kConstant;
  return is_constant ? "(" + expression.to_string() + ")" : expression.to_string();
}

struct Print {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return exact_decimal(value); }
  std::string operator()(const std::string& value) const { return quoted_string(value); }
  std::string operator()(const Expression& value) const { return expression_text(value); }
  std::string operator()(const std::vector<int64_t>& values) const {
    return list(values, "", [](int64_t v) { return std::to_string(v); });
  }
  std::string operator()(const std::vector<double>& values) const { return list(values, "floats", exact_decimal); }
  std::string operator()(const std::vector<Expression>& values) const {
    return list(values, "expressions", expression_text);
  }
};

}  // namespace

std::string_view attribute_type_name(AttributeType type) { return kTypeNames[static_cast<size_t>(type)]; }

void Attributes::erase(std::string_view name) {
  const auto found = values_.find(name);
  if (found != values_.end()) values_.erase(found);
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool Attributes::get_bool(std::string_view name) const { return get<bool>(*this, name); }
int64_t Attributes::get_int(std::string_view name) const { return get<int64_t>(*this, name); }
double Attributes::get_float(std::string_view name) const { return get<double>(*this, name); }
const std::string& Attributes::get_string(std::string_view name) const { return get<std::string>(*this, name); }
const std::vector<int64_t>& Attributes::get_ints(std::string_view name) const {
  return get<std::vector<int64_t>>(*this, name);
}
const std::vector<double>& Attributes::get_floats(std::string_view name) const {
  return get<std::vector<double>>(*this, name);
}
const Expression& Attributes::get_expression(std::string_view name) const { return get<Expression>(*this, name); }
const std::vector<Expression>& Attributes::get_expressions(std::string_view name) const {
  return get<std::vector<Expression>>(*this, name);
}

std::string attribute_to_string(const Attribute& value) { return std::visit(Print{}, value); }

std::string attributes_to_string(const Attributes& attributes) {
  if (attributes.all().empty()) return "";
  std::string out = "{";
  for (const auto& [name, value] : attributes.all()) {
    out += (out.size() > 1 ? ", " : "") + name + " = " + attribute_to_string(value);
  }
  return out + "}";
}

}  // namespace firstlight::ops
