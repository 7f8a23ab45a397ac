// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/value_tests.h"

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace firstlight::text::jinja {
namespace {

using Operands = std::vector<Value>;

Result<bool> remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int wanted) {
  const Value rest = FL_TRY(apply_binary(runtime, Operator::kMod, value, divisor));
  return equals(rest, Value::integer(wanted));
}

Result<bool> t_odd(Runtime& r, const Value& v, const Operands&) { return remainder_is(r, v, Value::integer(2), 1); }
Result<bool> t_even(Runtime& r, const Value& v, const Operands&) { return remainder_is(r, v, Value::integer(2), 0); }
Result<bool> t_divisibleby(Runtime& r, const Value& v, const Operands& o) { return remainder_is(r, v, o[0], 0); }
Result<bool> t_defined(Runtime&, const Value& v, const Operands&) { return !v.is_undefined(); }
Result<bool> t_undefined(Runtime&, const Value& v, const Operands&) { return v.is_undefined(); }
Result<bool> t_filter(Runtime&, const Value& v, const Operands&) {
  return v.is_string() && (find_filter(v.as_view()) != nullptr || is_refused_filter(v.as_view()));
}
Result<bool> t_test(Runtime&, const Value& v, const Operands&) {
  return v.is_string() && find_test(v.as_view()) != nullptr;
}
Result<bool> t_none(Runtime&, const Value& v, const Operands&) { return v.is_none(); }
Result<bool> t_boolean(Runtime&, const Value& v, const Operands&) { return v.is_bool(); }
Result<bool> t_true(Runtime&, const Value& v, const Operands&) { return v.is_bool() && v.as_bool(); }
Result<bool> t_false(Runtime&, const Value& v, const Operands&) { return v.is_bool() && !v.as_bool(); }
Result<bool> t_integer(Runtime&, const Value& v, const Operands&) { return v.kind() == Kind::kInt; }
Result<bool> t_float(Runtime&, const Value& v, const Operands&) { return v.kind() == Kind::kFloat; }
Result<bool> t_number(Runtime&, const Value& v, const Operands&) { return v.is_number(); }
Result<bool> t_lower(Runtime&, const Value& v, const Operands&) { return is_lower(to_text(v).view()); }
Result<bool> t_upper(Runtime&, const Value& v, const Operands&) { return is_upper(to_text(v).view()); }
Result<bool> t_string(Runtime&, const Value& v, const Operands&) { return v.is_string(); }
Result<bool> t_mapping(Runtime&, const Value& v, const Operands&) { return v.is_dict(); }
Result<bool> t_iterable(Runtime&, const Value& v, const Operands&) { return is_iterable(v); }
Result<bool> t_sequence(Runtime&, const Value& v, const Operands&) {
  if (v.kind() == Kind::kSequence) return v.as_sequence()->kind <= SequenceKind::kRange;
  return v.is_string() || v.is_dict() || v.is_undefined();
}
Result<bool> t_callable(Runtime&, const Value& v, const Operands&) {
  if (v.kind() == Kind::kCallable) return v.as_callable()->kind != CallableKind::kCycler;
  return v.kind() == Kind::kLoop || v.is_undefined();
}
Result<bool> t_sameas(Runtime&, const Value& v, const Operands& o) { return is_same(v, o[0]); }
Result<bool> t_escaped(Runtime&, const Value& v, const Operands&) { return v.is_string() && v.as_text().is_markup(); }
Result<bool> t_in(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kIn, v, o[0]); }
Result<bool> t_eq(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kEq, v, o[0]); }
Result<bool> t_ne(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kNe, v, o[0]); }
Result<bool> t_gt(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kGt, v, o[0]); }
Result<bool> t_ge(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kGe, v, o[0]); }
Result<bool> t_lt(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kLt, v, o[0]); }
Result<bool> t_le(Runtime& r, const Value& v, const Operands& o) { return apply_compare(r, Operator::kLe, v, o[0]); }

constexpr TestRow kRows[] = {
    {"odd", 0, t_odd},
    {"even", 0, t_even},
    {"divisibleby", 1, t_divisibleby},
    {"defined", 0, t_defined},
    {"undefined", 0, t_undefined},
    {"filter", 0, t_filter},
    {"test", 0, t_test},
    {"none", 0, t_none},
    {"boolean", 0, t_boolean},
    {"true", 0, t_true},
    {"false", 0, t_false},
    {"integer", 0, t_integer},
    {"float", 0, t_float},
    {"number", 0, t_number},
    {"lower", 0, t_lower},
    {"upper", 0, t_upper},
    {"string", 0, t_string},
    {"mapping", 0, t_mapping},
    {"sequence", 0, t_sequence},
    {"iterable", 0, t_iterable},
    {"callable", 0, t_callable},
    {"sameas", 1, t_sameas},
    {"escaped", 0, t_escaped},
    {"in", 1, t_in},
    {"==", 1, t_eq},
    {"eq", 1, t_eq},
    {"equalto", 1, t_eq},
    {"!=", 1, t_ne},
    {"ne", 1, t_ne},
    {">", 1, t_gt},
    {"gt", 1, t_gt},
    {"greaterthan", 1, t_gt},
    {">=", 1, t_ge},
    {"ge", 1, t_ge},
    {"<", 1, t_lt},
    {"lt", 1, t_lt},
    {"lessthan", 1, t_lt},
    {"<=", 1, t_le},
    {"le", 1, t_le},
};

}  // namespace

const TestRow* find_test(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const TestRow& r) { return r.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

Result<bool> apply_test(Runtime& runtime, const TestRow& row, const Value& value, const CallArgs& args) {
  FL_TRY(runtime.charge(1));
  if (!args.named.empty())
    return unsupported("keyword argument '" + args.named.front().first + "' of test '" + std::string(row.name) + "'");
  if (args.positional.size() != row.operands) {
    return invalid_data("test '" + std::string(row.name) + "' takes " + std::to_string(row.operands) + " operands, " +
                        std::to_string(args.positional.size()) + " given");
  }
  return row.apply(runtime, value, args.positional);
}

}  // namespace firstlight::text::jinja
