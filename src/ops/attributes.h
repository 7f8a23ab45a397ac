// SPDX-License-Identifier: Apache-2.0
// The attributes of an operator: a few named values whose names and types its table row fixes (ops/op.h). The verifier
// holds every node against that row, so that readers may take what they need without asking twice.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "ops/expression.h"

namespace firstlight::ops {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               Expression, std::vector<Expression>>;

enum class AttributeType : uint8_t { kBool, kInt, kFloat, kString, kInts, kFloats, kExpression, kExpressions };

inline AttributeType attribute_type(const Attribute& value) { return static_cast<AttributeType>(value.index()); }
std::string_view attribute_type_name(AttributeType type);

class Attributes {
 public:
  void set(std::string name, Attribute value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  void erase(std::string_view name);
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  const Attribute* find(std::string_view name) const;

  // The value of that type; FL_CHECKs that it is there (the op's table row filled defaults in).
  bool get_bool(std::string_view name) const;
  int64_t get_int(std::string_view name) const;
  double get_float(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;
  const std::vector<int64_t>& get_ints(std::string_view name) const;
  const std::vector<double>& get_floats(std::string_view name) const;
  const Expression& get_expression(std::string_view name) const;
  const std::vector<Expression>& get_expressions(std::string_view name) const;

  const std::map<std::string, Attribute, std::less<>>& all() const { return values_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::map<std::string, Attribute, std::less<>> values_;
};

// "{eps = 1e-05, style = \"half\", perm = [0, 2, 1], expr = mul(x0, x1)}"; "" when empty. The text states each value's
// type: doubles carry '.', 'e', inf or nan; empty lists are "[]" (ints), "floats[]", "expressions[]"; an expression
// that is one constant stands in parentheses, "(1.0)"; the empty expression is "()".
std::string attribute_to_string(const Attribute& value);
std::string attributes_to_string(const Attributes& attributes);

// Reads that text back. Errors: kInvalidData with the offset and what was wanted there. The second form reads from the
// front of `text` ("" where no '{' stands there) and moves it past what was read.
Result<Attributes> parse_attributes(std::string_view text);
Result<Attributes> parse_attributes_prefix(std::string_view& text);

}  // namespace firstlight::ops
