// SPDX-License-Identifier: Apache-2.0
// Filters that apply another filter or a test to every item: map, select, reject and their attribute forms.
#include "text/jinja/filters.h"

namespace firstlight::text::jinja {
namespace {

// The value of keyword `name`, taken out of the arguments.
std::optional<Value> take_named(CallArgs& args, std::string_view name) {
  for (auto it = args.named.begin(); it != args.named.end(); ++it) {
    if (it->first != name) continue;
    Value out = std::move(it->second);
    args.named.erase(it);
    return out;
  }
  return std::nullopt;
}

Result<std::string> take_name(CallArgs& args, std::string_view missing) {
  if (args.positional.empty()) return invalid_data(std::string(missing));
  const Value name = args.positional.front();
  args.positional.erase(args.positional.begin());
  if (!name.is_string()) return invalid_data("a filter or test name must be a string, not '" + type_name(name) + "'");
  return name.as_text().bytes();
}

Result<Value> f_map(Runtime& runtime, const Value& value, CallArgs args) {
  std::vector<Value> out;
  const std::string repr = "<generator object sync_do_map>";
  if (!is_truthy(value)) return make_iterator(std::move(out), repr);
  if (args.positional.empty()) {
    const std::optional<Value> attribute = take_named(args, "attribute");
    if (!attribute) return invalid_data("map requires a filter argument");
    const std::optional<Value> fallback = take_named(args, "default");
    if (!args.named.empty()) return invalid_data("Unexpected keyword argument '" + args.named.front().first + "'");
    for (const Value& item : FL_TRY(items_of(value))) {
      out.push_back(FL_TRY(follow_path(runtime, item, *attribute, fallback)));
    }
    return make_iterator(std::move(out), repr);
  }
  const std::string name = FL_TRY(take_name(args, "map requires a filter argument"));
  for (const Value& item : FL_TRY(items_of(value))) out.push_back(FL_TRY(runtime.call_filter(name, item, args)));
  return make_iterator(std::move(out), repr);
}

Result<Value> filter_items(Runtime& runtime, const Value& value, CallArgs args, bool wanted, bool by_attribute) {
  std::vector<Value> out;
  const std::string repr = "<generator object select_or_reject>";
  if (!is_truthy(value)) return make_iterator(std::move(out), repr);
  Value attribute = None{};
  if (by_attribute) {
    if (args.positional.empty()) return invalid_data("Missing parameter for attribute name");
    attribute = args.positional.front();
    args.positional.erase(args.positional.begin());
  }
  const bool has_test = !args.positional.empty();
  const std::string test = has_test ? FL_TRY(take_name(args, "")) : std::string();
  for (const Value& item : FL_TRY(items_of(value))) {
    FL_TRY(runtime.charge(1));
    const Value probe = FL_TRY(follow_path(runtime, item, attribute));
    const bool holds = has_test ? FL_TRY(runtime.call_test(test, probe, args)) : is_truthy(probe);
    if (holds == wanted) out.push_back(item);
  }
  return make_iterator(std::move(out), repr);
}

Result<Value> f_select(Runtime& r, const Value& value, CallArgs args) {
  return filter_items(r, value, std::move(args), true, false);
}
Result<Value> f_reject(Runtime& r, const Value& value, CallArgs args) {
  return filter_items(r, value, std::move(args), false, false);
}
Result<Value> f_selectattr(Runtime& r, const Value& value, CallArgs args) {
  return filter_items(r, value, std::move(args), true, true);
}
Result<Value> f_rejectattr(Runtime& r, const Value& value, CallArgs args) {
  return filter_items(r, value, std::move(args), false, true);
}

constexpr FilterRow kRows[] = {
    {"map", "*", 0, nullptr, f_map},
    {"select", "*", 0, nullptr, f_select},
    {"reject", "*", 0, nullptr, f_reject},
    {"selectattr", "*", 0, nullptr, f_selectattr},
    {"rejectattr", "*", 0, nullptr, f_rejectattr},
};

}  // namespace

std::span<const FilterRow> selection_filters() { return kRows; }

}  // namespace firstlight::text::jinja
