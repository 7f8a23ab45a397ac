// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/globals.h"

#include <array>
#include <ctime>
#include <iterator>

#include "text/jinja/numbers.h"
#include "text/jinja/print.h"

namespace firstlight::text::jinja {
namespace {

Result<Value> g_range(Runtime& runtime, CallArgs args) {
  FL_TRY(refuse_named("range", args));
  if (args.positional.empty() || args.positional.size() > 3) return invalid_data("range expected 1 to 3 arguments");
  std::array<Int, 3> bounds = {0, 0, 1};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    const Value& value = args.positional[i];
    if (value.is_undefined()) return invalid_data(value.undefined_message());
    if (!value.is_integral())
      return invalid_data("'" + type_name(value) + "' object cannot be interpreted as an integer");
    bounds[args.positional.size() == 1 ? 1 : i] = value.as_int();
  }
  const auto [start, stop, step] = bounds;
  constexpr Int kFar = Int{1} << 100;
  if (step == 0) return invalid_data("range() arg 3 must not be zero");
  if (start > kFar || start < -kFar || stop > kFar || stop < -kFar || step > kFar || step < -kFar)
    return unsupported("range bounds too large");
  const Int span = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > runtime.limits().range_items) {
    return invalid_data("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                        format_int(runtime.limits().range_items) + ").");
  }
  FL_TRY(runtime.charge(static_cast<uint64_t>(count)));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (Int i = 0; i < count; ++i) items.push_back(Value::integer(start + i * step));
  Value out = FL_TRY(make_sequence(SequenceKind::kRange, std::move(items)));
  out.as_sequence()->repr =
      "range(" + format_int(start) + ", " + format_int(stop) + (step == 1 ? "" : ", " + format_int(step)) + ")";
  return out;
}

// dict(mapping or pairs, **named), also what namespace() takes.
Result<Dict> dict_from(Runtime& runtime, CallArgs args, std::string_view who) {
  Dict out;
  if (args.positional.size() > 1) return invalid_data(std::string(who) + " expected at most 1 argument");
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    out = *args.positional[0].as_dict();
    FL_TRY(runtime.charge(out.entries.size()));
  } else if (!args.positional.empty()) {
    for (const Value& pair : FL_TRY(items_of(args.positional[0]))) {
      const std::vector<Value> parts = FL_TRY(items_of(pair));
      if (parts.size() != 2)
        return invalid_data("dictionary update sequence element has length " + std::to_string(parts.size()) +
                            "; 2 is required");
      if (!is_hashable(parts[0])) return invalid_data("unhashable type: '" + type_name(parts[0]) + "'");
      FL_TRY(runtime.charge(parts[0].is_string() ? 1 : 1 + out.entries.size()));
      out.set(parts[0], parts[1]);
    }
  }
  for (auto& [name, value] : args.named) out.set(Value::string(name, true), std::move(value));
  return out;
}

Result<Value> g_dict(Runtime& runtime, CallArgs args) {
  return make_dict(FL_TRY(dict_from(runtime, std::move(args), "dict")));
}

Result<Value> g_namespace(Runtime& runtime, CallArgs args) {
  const Dict attributes = FL_TRY(dict_from(runtime, std::move(args), "namespace"));
  auto out = std::make_shared<Namespace>();
  for (const auto& [key, value] : attributes.entries) {
    if (!key.is_string()) return unsupported("namespace attribute that is no string");
    FL_TRY(set_namespace(*out, key.as_text().bytes(), value));
  }
  return Value(std::move(out));
}

Result<Value> g_cycler(Runtime&, CallArgs args) {
  FL_TRY(refuse_named("cycler", args));
  if (args.positional.empty()) return invalid_data("at least one item has to be provided");
  auto out = std::make_shared<Callable>();
  out->kind = CallableKind::kCycler;
  out->name = "cycler";
  out->self = FL_TRY(make_tuple(std::move(args.positional)));
  return Value(std::move(out));
}

Result<Value> g_joiner(Runtime&, CallArgs args) {
  const Bound bound = FL_TRY(Bound::bind("joiner", "sep", 0, std::move(args)));
  auto out = std::make_shared<Callable>();
  out->kind = CallableKind::kJoiner;
  out->name = "joiner";
  out->self = bound.value_or(0, Value::string(", ", true));
  return Value(std::move(out));
}

Result<Value> g_raise_exception(Runtime&, CallArgs args) {
  const Bound bound = FL_TRY(Bound::bind("raise_exception", "message", 1, std::move(args)));
  return invalid_argument(to_text(bound[0]).bytes());
}

Result<Value> g_strftime_now(Runtime& runtime, CallArgs args) {
  const Bound bound = FL_TRY(Bound::bind("strftime_now", "format", 1, std::move(args)));
  const std::string format = FL_TRY(bound.text(0)).value_or(Text()).bytes();
  std::string kept;  // without the zone, which a naive Python datetime prints as nothing
  for (size_t i = 0; i < format.size(); ++i) {
    const bool pair = format[i] == '%' && i + 1 < format.size();
    if (pair && (format[i + 1] == 'Z' || format[i + 1] == 'z')) {
      ++i;
      continue;
    }
    if (pair && format[i + 1] == 'f') {
      kept += "000000";
      ++i;
      continue;
    }
    kept += format[i];
    if (pair) kept += format[++i];
  }
  if (kept.empty()) return Value(Text());
  if (kept.find('\0') != std::string::npos) return invalid_data("embedded null character in a time format");
  std::array<char, 4096> buffer{};
  const std::tm now = runtime.now();
  const std::string marked = kept + "|";  // so that an empty result can be told from one that does not fit
  const size_t size = std::strftime(buffer.data(), buffer.size(), marked.c_str(), &now);
  if (size == 0) return unsupported("time format whose result is longer than 4096 bytes");
  return Value::string(std::string(buffer.data(), size - 1), bound[0].as_text().is_trusted());
}

struct Row {
  std::string_view name;
  Result<Value> (*call)(Runtime&, CallArgs);
};

constexpr Row kGlobals[] = {
    {"range", g_range},
    {"dict", g_dict},
    {"namespace", g_namespace},
    {"cycler", g_cycler},
    {"joiner", g_joiner},
    {"raise_exception", g_raise_exception},
    {"strftime_now", g_strftime_now},
};

}  // namespace

std::optional<Value> find_global(std::string_view name) {
  for (const Row& row : kGlobals) {
    if (row.name != name) continue;
    auto out = std::make_shared<Callable>();
    out->kind = CallableKind::kGlobal;
    out->name = row.name;
    return Value(std::move(out));
  }
  return std::nullopt;
}

Result<Value> call_global(Runtime& runtime, std::string_view name, CallArgs args) {
  for (const Row& row : kGlobals) {
    if (row.name == name) return row.call(runtime, std::move(args));
  }
  return internal_error("global function '" + std::string(name) + "'");
}

Status set_namespace(Namespace& target, const std::string& name, Value value) {
  if (name.starts_with("_")) {
    return invalid_data("Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
                        quote(name) + ".");
  }
  target.attributes.set(Value::string(name, true), std::move(value));
  return ok_status();
}

}  // namespace firstlight::text::jinja
