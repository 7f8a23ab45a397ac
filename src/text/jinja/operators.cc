// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/operators.h"

#include <algorithm>

#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/numbers.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {
namespace {

std::string_view symbol(Operator op) {
  switch (op) {
    case Operator::kEq:
      return "==";
    case Operator::kNe:
      return "!=";
    case Operator::kLt:
      return "<";
    case Operator::kLe:
      return "<=";
    case Operator::kGt:
      return ">";
    case Operator::kGe:
      return ">=";
    case Operator::kIn:
      return "in";
    case Operator::kNotIn:
      return "not in";
    case Operator::kAdd:
      return "+";
    case Operator::kSub:
      return "-";
    case Operator::kMul:
      return "*";
    case Operator::kDiv:
      return "/";
    case Operator::kFloorDiv:
      return "//";
    case Operator::kMod:
      return "%";
    case Operator::kPow:
      return "** or pow()";
  }
  return "?";
}

Arithmetic arithmetic(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return Arithmetic::kAdd;
    case Operator::kSub:
      return Arithmetic::kSub;
    case Operator::kMul:
      return Arithmetic::kMul;
    case Operator::kDiv:
      return Arithmetic::kDiv;
    case Operator::kFloorDiv:
      return Arithmetic::kFloorDiv;
    case Operator::kMod:
      return Arithmetic::kMod;
    default:
      return Arithmetic::kPow;
  }
}

Result<Value> join_strings(Runtime& runtime, const Text& left, const Text& right) {
  if (left.is_markup() == right.is_markup()) {
    Text out = left;
    out.append(right);
    return runtime.text(std::move(out));
  }
  Text out = left.is_markup() ? left : escape_markup(left);
  out.append(right.is_markup() ? right : escape_markup(right));
  out.set_markup(true);
  return runtime.text(std::move(out));
}

bool is_plain_sequence(const Value& value) {
  return value.kind() == Kind::kSequence && value.as_sequence()->kind <= SequenceKind::kTuple;
}

Result<Value> join_sequences(Runtime& runtime, const Value& left, const Value& right) {
  std::vector<Value> items = left.as_sequence()->items;
  FL_TRY(runtime.charge(items.size() + right.as_sequence()->items.size()));
  items.insert(items.end(), right.as_sequence()->items.begin(), right.as_sequence()->items.end());
  return make_sequence(left.as_sequence()->kind, std::move(items));
}

Result<Value> repeat_value(Runtime& runtime, const Value& value, Int times) {
  if (times < 0) times = 0;
  const Int unit = value.is_string() ? Int{static_cast<int64_t>(value.as_text().size())}
                                     : Int{static_cast<int64_t>(value.as_sequence()->items.size())};
  if (unit > 0 && times > static_cast<Int>(runtime.limits().string_bytes) / unit) {
    return unsupported("repetition longer than " + std::to_string(runtime.limits().string_bytes));
  }
  if (unit == 0) times = 0;
  const auto count = static_cast<size_t>(times);
  FL_TRY(runtime.charge(count * static_cast<size_t>(unit)));
  if (value.is_string()) return runtime.text(repeat(value.as_text(), count));
  std::vector<Value> items;
  for (size_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.as_sequence()->items.begin(), value.as_sequence()->items.end());
  }
  return make_sequence(value.as_sequence()->kind, std::move(items));
}

Result<bool> contains(Runtime& runtime, const Value& needle, const Value& hay) {
  FL_TRY(runtime.charge(1 + (hay.is_string() || hay.kind() == Kind::kSequence ? value_weight(hay) / 8 : 0)));
  switch (hay.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (needle.is_undefined() || !needle.is_string()) {
        return invalid_data("'in <string>' requires string as left operand, not " + type_name(needle));
      }
      return hay.as_view().find(needle.as_view()) != std::string_view::npos;
    case Kind::kDict:
      if (!is_hashable(needle)) return invalid_data("unhashable type: '" + type_name(needle) + "'");
      return hay.as_dict()->find(needle) != nullptr;
    default:
      break;
  }
  const std::vector<Value> items = FL_TRY(items_of(hay));
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equals(item, needle); });
}

}  // namespace

Result<Value> apply_binary(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  if (op == Operator::kMod && left.is_string()) return format_percent(runtime, left.as_text(), right);
  if (left.is_undefined()) return invalid_data(left.undefined_message());
  if (right.is_undefined()) return invalid_data(right.undefined_message());
  if (left.is_number() && right.is_number()) return compute(arithmetic(op), left, right);
  if (op == Operator::kAdd && left.is_string() && right.is_string()) {
    return join_strings(runtime, left.as_text(), right.as_text());
  }
  if (op == Operator::kAdd && is_plain_sequence(left) && is_plain_sequence(right) &&
      left.as_sequence()->kind == right.as_sequence()->kind) {
    return join_sequences(runtime, left, right);
  }
  if (op == Operator::kMul) {
    if ((left.is_string() || is_plain_sequence(left)) && right.is_integral()) {
      return repeat_value(runtime, left, right.as_int());
    }
    if ((right.is_string() || is_plain_sequence(right)) && left.is_integral()) {
      return repeat_value(runtime, right, left.as_int());
    }
  }
  if (op == Operator::kAdd && left.is_string()) {
    return invalid_data("can only concatenate str (not \"" + type_name(right) + "\") to str");
  }
  return invalid_data("unsupported operand type(s) for " + std::string(symbol(op)) + ": '" + type_name(left) +
                      "' and '" + type_name(right) + "'");
}

Result<bool> apply_compare(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  FL_TRY(runtime.charge(1 + std::min(value_weight(left), value_weight(right)) / 8));
  switch (op) {
    case Operator::kEq:
      return equals(left, right);
    case Operator::kNe:
      return !equals(left, right);
    case Operator::kLt:
      return less_than(left, right, "<");
    case Operator::kGt:
      return less_than(right, left, ">");
    case Operator::kLe:
    case Operator::kGe: {
      const bool less = FL_TRY(op == Operator::kLe ? less_than(left, right, "<=") : less_than(right, left, ">="));
      return less || equals(left, right);
    }
    case Operator::kIn:
      return contains(runtime, left, right);
    case Operator::kNotIn:
      return !FL_TRY(contains(runtime, left, right));
    default:
      return internal_error("not a comparison");
  }
}

Result<Value> negate(const Value& value, bool minus) {
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (!value.is_number()) {
    return invalid_data("bad operand type for unary " + std::string(minus ? "-" : "+") + ": '" + type_name(value) +
                        "'");
  }
  if (value.kind() == Kind::kFloat) return Value(minus ? -value.as_double() : value.as_double());
  return minus ? compute(Arithmetic::kSub, Value::integer(0), value) : Result<Value>(Value::integer(value.as_int()));
}

namespace {

struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

// None is absent; the caller has seen to it that everything else is an int.
std::optional<int64_t> bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  const Int clamped = std::clamp<Int>(value.as_int(), -INT64_MAX, INT64_MAX);
  return static_cast<int64_t>(clamped);
}

// slice.indices(length) of Python.
Result<Range> resolve(const SliceBounds& bounds, int64_t length) {
  Range out;
  out.step = bound(bounds.step).value_or(1);
  if (out.step == 0) return invalid_data("slice step cannot be zero");
  const int64_t low = out.step < 0 ? -1 : 0;
  const int64_t high = out.step < 0 ? length - 1 : length;
  const auto clip = [&](std::optional<int64_t> at, int64_t fallback) {
    if (!at.has_value()) return fallback;
    if (*at < 0) return std::max(low, *at + length);
    return std::min(high, *at);
  };
  out.start = clip(bound(bounds.start), out.step < 0 ? high : low);
  out.stop = clip(bound(bounds.stop), out.step < 0 ? low : high);
  return out;
}

template <typename Fn>
void for_each_index(const Range& range, int64_t length, Fn fn) {
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    fn(static_cast<size_t>(i));
    if (range.step > length || range.step < -length) break;  // nothing further inside, and no overflow
    i += range.step;
  }
}

Result<Value> slice_text(Runtime& runtime, const Text& text, const SliceBounds& bounds) {
  FL_TRY(runtime.charge(1 + text.size() / 8));
  const auto length = static_cast<int64_t>(count_code_points(text.view()));
  const Range range = FL_TRY(resolve(bounds, length));
  if (range.step == 1) {
    const size_t from = code_point_offset(text.view(), static_cast<size_t>(range.start));
    const size_t to = code_point_offset(text.view(), static_cast<size_t>(std::max(range.start, range.stop)));
    return runtime.text(text.slice(from, to));
  }
  std::vector<size_t> starts;
  for_each_code_point(text.view(), [&](char32_t, size_t pos, size_t) {
    starts.push_back(pos);
    return true;
  });
  starts.push_back(text.size());
  Text out;
  for_each_index(range, length, [&](size_t i) { out.append_slice(text, starts[i], starts[i + 1]); });
  out.set_markup(text.is_markup());
  return runtime.text(std::move(out));
}

}  // namespace

Result<Value> get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  if (object.is_undefined()) return invalid_data(object.undefined_message());
  // As the sandbox's getitem does: where Python raises a TypeError, the result is undefined.
  for (const Value* at : {&bounds.start, &bounds.stop, &bounds.step}) {
    if (!at->is_none() && !at->is_integral()) return Value::undefined("slice indices must be integers or None");
  }
  if (object.is_string()) return slice_text(runtime, object.as_text(), bounds);
  const bool sliceable = object.kind() == Kind::kSequence && object.as_sequence()->kind <= SequenceKind::kRange;
  if (!sliceable) return Value::undefined("'" + type_name(object) + "' object can not be sliced");
  const Sequence& sequence = *object.as_sequence();
  const auto length = static_cast<int64_t>(sequence.items.size());
  const Result<Range> range = resolve(bounds, length);
  if (!range.ok()) return range.status();
  std::vector<Value> items;
  for_each_index(*range, length, [&](size_t i) { items.push_back(sequence.items[i]); });
  FL_TRY(runtime.charge(items.size()));
  return make_sequence(sequence.kind == SequenceKind::kRange ? SequenceKind::kList : sequence.kind, std::move(items));
}

namespace {

std::string missing(const Value& object, const Value& key) {
  const std::string type = type_name(object);
  if (key.is_string()) return "'" + type + " object' has no attribute " + quote(key.as_view());
  return type + " object has no element " + to_repr(key).bytes();
}

// object[key] alone; nothing where Python raises a TypeError or LookupError.
std::optional<Value> subscript(const Value& object, const Value& key) {
  if (object.is_dict()) {
    if (!is_hashable(key)) return std::nullopt;
    const Value* found = object.as_dict()->find(key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!key.is_integral()) return std::nullopt;
  const bool indexable =
      object.is_string() || (object.kind() == Kind::kSequence && object.as_sequence()->kind <= SequenceKind::kRange);
  if (!indexable) return std::nullopt;
  const Int length = object.is_string() ? static_cast<Int>(count_code_points(object.as_view()))
                                        : static_cast<Int>(object.as_sequence()->items.size());
  const Int index = key.as_int() < 0 ? key.as_int() + length : key.as_int();
  if (index < 0 || index >= length) return std::nullopt;
  const auto i = static_cast<size_t>(index);
  if (!object.is_string()) return object.as_sequence()->items[i];
  const Text& text = object.as_text();
  const size_t from = code_point_offset(text.view(), i);
  return Value(text.slice(
      from, from + std::min<size_t>(text.size() - from, utf8_length(static_cast<unsigned char>(text.bytes()[from])))));
}

}  // namespace

Result<Value> get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) return invalid_data(object.undefined_message());
  if (object.is_string()) FL_TRY(runtime.charge(1 + object.as_text().size() / 8));
  if (std::optional<Value> found = subscript(object, key)) return *std::move(found);
  if (key.is_string()) {
    std::optional<Value> attribute = FL_TRY(get_attr_only(object, key.as_text().bytes()));
    if (attribute.has_value()) return *std::move(attribute);
  }
  return Value::undefined(missing(object, key));
}

Result<Value> get_attr(Runtime& runtime, const Value& object, const std::string& name) {
  if (object.is_undefined()) return invalid_data(object.undefined_message());
  FL_TRY(runtime.charge(1));
  std::optional<Value> attribute = FL_TRY(get_attr_only(object, name));
  if (attribute.has_value()) return *std::move(attribute);
  if (object.is_dict()) {
    if (const Value* found = object.as_dict()->find(std::string_view(name))) return *found;
  }
  return Value::undefined(missing(object, Value::string(name, true)));
}

Result<std::optional<Value>> get_attr_only(const Value& object, const std::string& name) {
  using Found = std::optional<Value>;
  if (object.kind() == Kind::kNamespace) {
    const Value* found = object.as_namespace()->attributes.find(std::string_view(name));
    return found != nullptr ? Found(*found) : Found();
  }
  if (object.kind() == Kind::kLoop && name != "cycle" && name != "changed") {
    return Found(FL_TRY(object.as_loop()->attribute(name)));
  }
  switch (find_method(object, name)) {
    case MethodKind::kNone:
      return Found();
    case MethodKind::kUnsafe:
      return Found(
          Value::undefined("access to attribute '" + name + "' of '" + type_name(object) + "' object is unsafe."));
    case MethodKind::kUnsupported:
      return unsupported("attribute '" + name + "' of '" + type_name(object) + "'");
    case MethodKind::kProperty:
      return Found(FL_TRY(method_property(object, name)));
    case MethodKind::kMethod:
      break;
  }
  auto method = std::make_shared<Callable>();
  method->kind = CallableKind::kMethod;
  method->name = name;
  method->self = object;
  return Found(Value(std::move(method)));
}

}  // namespace firstlight::text::jinja
