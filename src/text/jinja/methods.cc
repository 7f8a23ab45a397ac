// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/methods.h"

#include <algorithm>

#include "text/jinja/numbers.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace firstlight::text::jinja {
namespace {

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

MethodKind find_sequence_method(const Sequence& sequence, std::string_view name) {
  if (std::find(sequence.fields.begin(), sequence.fields.end(), name) != sequence.fields.end())
    return MethodKind::kProperty;
  if (sequence.kind <= SequenceKind::kRange && is_any(name, {"count", "index"})) return MethodKind::kMethod;
  if (sequence.kind != SequenceKind::kList) return MethodKind::kNone;
  if (name == "copy") return MethodKind::kMethod;
  const bool unsafe = is_any(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  return unsafe ? MethodKind::kUnsafe : MethodKind::kNone;
}

MethodKind find_dict_method(std::string_view name) {
  if (is_any(name, {"get", "items", "keys", "values", "copy"})) return MethodKind::kMethod;
  if (is_any(name, {"clear", "pop", "popitem", "setdefault", "update"})) return MethodKind::kUnsafe;
  return name == "fromkeys" ? MethodKind::kUnsupported : MethodKind::kNone;
}

MethodKind find_callable_method(const Callable& callable, std::string_view name) {
  if (callable.kind == CallableKind::kCycler) {
    if (is_any(name, {"next", "reset"})) return MethodKind::kMethod;
    if (name == "current") return MethodKind::kProperty;
  }
  if (callable.kind == CallableKind::kMacro &&
      is_any(name, {"name", "arguments", "catch_kwargs", "catch_varargs", "caller"})) {
    return name == "name" ? MethodKind::kProperty : MethodKind::kUnsupported;
  }
  return MethodKind::kNone;
}

}  // namespace

MethodKind find_method(const Value& object, std::string_view name) {
  if (name.starts_with("__")) return MethodKind::kUnsafe;
  switch (object.kind()) {
    case Kind::kString:
      return find_str_method(name);
    case Kind::kSequence:
      return find_sequence_method(*object.as_sequence(), name);
    case Kind::kDict:
      return find_dict_method(name);
    case Kind::kCallable:
      return find_callable_method(*object.as_callable(), name);
    case Kind::kLoop:
      return is_any(name, {"cycle", "changed"}) ? MethodKind::kMethod : MethodKind::kNone;
    case Kind::kFloat:
      if (is_any(name, {"is_integer"})) return MethodKind::kMethod;
      if (is_any(name, {"fromhex", "hex"})) return MethodKind::kUnsupported;
      [[fallthrough]];
    case Kind::kBool:
    case Kind::kInt: {
      const bool known = is_any(name, {"real", "imag", "numerator", "denominator", "conjugate", "bit_length",
                                       "bit_count", "to_bytes", "from_bytes", "as_integer_ratio"});
      return known ? MethodKind::kUnsupported : MethodKind::kNone;
    }
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kNamespace:
      return MethodKind::kNone;
  }
  return MethodKind::kNone;
}

Result<Value> method_property(const Value& object, std::string_view name) {
  if (object.kind() == Kind::kSequence) {
    const Sequence& sequence = *object.as_sequence();
    const auto field = std::find(sequence.fields.begin(), sequence.fields.end(), name);
    return sequence.items[static_cast<size_t>(field - sequence.fields.begin())];
  }
  const Callable& callable = *object.as_callable();
  if (callable.kind == CallableKind::kMacro) return Value::string(callable.name, true);
  return callable.self.as_sequence()->items[callable.position];
}

namespace {

Result<Value> call_sequence_method(const Sequence& self, std::string_view name, CallArgs args) {
  if (name == "copy") {
    FL_TRY(Bound::bind(name, "", 0, std::move(args)));
    return make_list(self.items);
  }
  const Bound bound = FL_TRY(Bound::bind(name, "value start stop", 1, std::move(args)));
  if (name == "count") {
    const auto count =
        std::count_if(self.items.begin(), self.items.end(), [&](const Value& v) { return equals(v, bound[0]); });
    return Value::integer(count);
  }
  const auto length = static_cast<int64_t>(self.items.size());
  const auto clip = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length); };
  const int64_t stop = clip(FL_TRY(bound.integer(2, length)));
  for (int64_t i = clip(FL_TRY(bound.integer(1, 0))); i < stop; ++i) {
    if (equals(self.items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
  }
  return invalid_data(to_repr(bound[0]).bytes() + " is not in list");
}

Result<Value> dict_view(const Dict& dict, SequenceKind kind) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (kind == SequenceKind::kItems) {
      items.push_back(FL_TRY(make_tuple({key, value})));
    } else {
      items.push_back(kind == SequenceKind::kKeys ? key : value);
    }
  }
  return make_sequence(kind, std::move(items));
}

Result<Value> call_dict_method(const Value& self, std::string_view name, CallArgs args) {
  const Dict& dict = *self.as_dict();
  if (name == "get") {
    FL_TRY(refuse_named("get", args));
    const Bound bound = FL_TRY(Bound::bind("get", "key default", 1, std::move(args)));
    if (!is_hashable(bound[0])) return invalid_data("unhashable type: '" + type_name(bound[0]) + "'");
    const Value* found = dict.find(bound[0]);
    return found != nullptr ? *found : bound.value_or(1, None{});
  }
  FL_TRY(Bound::bind(name, "", 0, std::move(args)));
  if (name == "copy") return self;
  return dict_view(dict, name == "items"  ? SequenceKind::kItems
                         : name == "keys" ? SequenceKind::kKeys
                                          : SequenceKind::kValues);
}

Result<Value> call_loop_method(LoopState& loop, std::string_view name, CallArgs args) {
  FL_TRY(refuse_named(name, args));
  if (name == "cycle") {
    if (args.positional.empty()) return invalid_data("no items for cycling given");
    return args.positional[static_cast<size_t>(loop.index0) % args.positional.size()];
  }
  const bool same = loop.last_changed.has_value() && std::equal(loop.last_changed->begin(), loop.last_changed->end(),
                                                                args.positional.begin(), args.positional.end(), equals);
  if (!same) loop.last_changed = std::move(args.positional);
  return Value(!same);
}

Result<Value> call_cycler_method(Callable& cycler, std::string_view name, CallArgs args) {
  FL_TRY(Bound::bind(name, "", 0, std::move(args)));
  const std::vector<Value>& items = cycler.self.as_sequence()->items;
  if (name == "reset") {
    cycler.position = 0;
    return Value(None{});
  }
  Value out = items[cycler.position];
  cycler.position = (cycler.position + 1) % items.size();
  return out;
}

}  // namespace

Result<Value> call_method(Runtime& runtime, const Value& self, const std::string& name, CallArgs args) {
  FL_TRY(runtime.charge(1 + (self.is_string() ? self.as_text().size() / 8 : 0)));
  switch (self.kind()) {
    case Kind::kString:
      return call_str_method(runtime, self.as_text(), name, std::move(args));
    case Kind::kSequence:
      FL_TRY(runtime.charge(value_weight(self) / 8));
      return call_sequence_method(*self.as_sequence(), name, std::move(args));
    case Kind::kDict:
      if (name != "get") FL_TRY(runtime.charge(self.as_dict()->entries.size()));
      return call_dict_method(self, name, std::move(args));
    case Kind::kLoop:
      return call_loop_method(*self.as_loop(), name, std::move(args));
    case Kind::kCallable:
      return call_cycler_method(*self.as_callable(), name, std::move(args));
    case Kind::kFloat: {
      FL_TRY(Bound::bind(name, "", 0, std::move(args)));
      const Result<Int> whole = truncate_float(self.as_double());
      return Value(whole.ok() && static_cast<double>(*whole) == self.as_double());
    }
    default:
      return internal_error("method '" + name + "' of '" + type_name(self) + "'");
  }
}

Status check_growth(Runtime& runtime, const Text& text, const Text& old, const Text& with) {
  FL_TRY(runtime.charge(1 + text.size() / 8));
  const size_t grown = count_hits(text.view(), old.view()) * with.size();
  FL_TRY(runtime.charge(grown / 8));
  if (grown > runtime.limits().string_bytes) return unsupported("replace() result too long");
  return ok_status();
}

Result<Value> join_texts(Runtime& runtime, const Text& separator, const std::vector<Value>& items) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      return invalid_data("sequence item " + std::to_string(i) + ": expected str instance, " + type_name(items[i]) +
                          " found");
    }
    if (i > 0) out.append(separator);
    out.append(items[i].as_text());
    if (out.size() > runtime.limits().string_bytes) break;  // refused below
  }
  return runtime.text(std::move(out));
}

}  // namespace firstlight::text::jinja
