// SPDX-License-Identifier: Apache-2.0
// Filters that take sequences and mappings as a whole: joining, ordering, cutting, summing.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/sorting.h"
#include "text/jinja/text_ops.h"

namespace firstlight::text::jinja {
namespace {

Result<std::vector<Value>> charged_items(Runtime& runtime, const Value& value) {
  std::vector<Value> items = FL_TRY(items_of(value));
  FL_TRY(runtime.charge(items.size()));
  return items;
}

Value fold_case(const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive ? Value(to_lower(value.as_text())) : value;
}

Value attribute_of(const Bound& args, size_t i) { return args.value_or(i, None{}); }

Result<Value> f_length(Runtime&, const Value& value, const Bound&) {
  return Value::integer(static_cast<int64_t>(FL_TRY(length_of(value))));
}

Result<Value> f_list(Runtime& runtime, const Value& value, const Bound&) {
  return make_list(FL_TRY(charged_items(runtime, value)));
}

Result<Value> f_first(Runtime& runtime, const Value& value, const Bound&) {
  if (value.kind() == Kind::kSequence) {  // without taking more than one from an iterator
    Sequence& sequence = *value.as_sequence();
    if (sequence.next >= sequence.items.size()) return Value::undefined("No first item, sequence was empty.");
    const Value out = sequence.items[sequence.next];
    if (sequence.kind == SequenceKind::kIterator) ++sequence.next;
    return out;
  }
  const std::vector<Value> items = FL_TRY(charged_items(runtime, value));
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

bool is_iterator(const Value& value) {
  return value.kind() == Kind::kSequence && value.as_sequence()->kind == SequenceKind::kIterator;
}

Result<Value> f_last(Runtime& runtime, const Value& value, const Bound&) {
  if (is_iterator(value)) return invalid_data("'generator' object is not reversible");
  if (value.kind() == Kind::kSequence && !value.as_sequence()->items.empty()) return value.as_sequence()->items.back();
  const std::vector<Value> items = FL_TRY(charged_items(runtime, value));
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> f_reverse(Runtime& runtime, const Value& value, const Bound&) {
  if (value.is_string()) {
    return get_slice(runtime, value, {.step = Value::integer(-1)});
  }
  const bool as_list = is_iterator(value);
  std::vector<Value> items = FL_TRY(charged_items(runtime, value));
  std::reverse(items.begin(), items.end());
  return as_list ? make_list(std::move(items)) : make_iterator(std::move(items), "<reversed object>");
}

Result<Value> f_join(Runtime& runtime, const Value& value, const Bound& args) {
  const Text separator = args.has(0) ? to_text(args[0]) : Text();
  const Value attribute = attribute_of(args, 1);
  Text out;
  bool first = true;
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    if (!first) out.append(separator);
    first = false;
    FL_TRY(runtime.charge(1 + value_weight(item) / 8));
    out.append(to_text(FL_TRY(follow_path(runtime, item, attribute))));
    if (out.size() > runtime.limits().string_bytes) break;  // refused below
  }
  return runtime.text(std::move(out));
}

struct Keyed {
  Value key;
  Value value;
};

Result<Value> sorted_list(Runtime& runtime, std::vector<Keyed> items, bool reverse) {
  uint64_t weight = 0;
  for (const Keyed& item : items) weight += value_weight(item.key) / 8 + 1;
  FL_TRY(runtime.charge(weight * 8));
  // Python keeps the order of equal items when it reverses, too.
  FL_TRY(sort_stable(items, [&](const Keyed& a, const Keyed& b) {
    return reverse ? less_than(b.key, a.key) : less_than(a.key, b.key);
  }));
  std::vector<Value> out;
  for (Keyed& item : items) out.push_back(std::move(item.value));
  return make_list(std::move(out));
}

Result<Value> f_sort(Runtime& runtime, const Value& value, const Bound& args) {
  const Value attribute = attribute_of(args, 2);
  const std::vector<Text> paths = attribute.is_string() ? split(attribute.as_text(), ",", -1) : std::vector<Text>();
  std::vector<Keyed> items;
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    std::vector<Value> key;
    const bool sensitive = args.flag(1, false);
    for (const Text& path : paths) key.push_back(fold_case(FL_TRY(follow_path(runtime, item, Value(path))), sensitive));
    if (paths.empty()) key.push_back(fold_case(FL_TRY(follow_path(runtime, item, attribute)), sensitive));
    items.push_back({FL_TRY(make_list(std::move(key))), item});
  }
  return sorted_list(runtime, std::move(items), args.flag(0, false));
}

Result<Value> f_dictsort(Runtime& runtime, const Value& value, const Bound& args) {
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  if (!value.is_dict()) return invalid_data("dictsort: a mapping is wanted, not '" + type_name(value) + "'");
  const Text by = FL_TRY(args.text(1)).value_or(Text("key", true));
  if (by.view() != "key" && by.view() != "value")
    return invalid_data("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> items;
  for (const auto& [key, entry] : value.as_dict()->entries) {
    items.push_back(
        {fold_case(by.view() == "key" ? key : entry, args.flag(0, false)), FL_TRY(make_tuple({key, entry}))});
  }
  return sorted_list(runtime, std::move(items), args.flag(2, false));
}

Result<Value> extreme(Runtime& runtime, const Value& value, const Bound& args, bool want_max) {
  std::optional<Keyed> best;
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    Value key = fold_case(FL_TRY(follow_path(runtime, item, attribute_of(args, 1))), args.flag(0, false));
    FL_TRY(runtime.charge(1 + value_weight(key) / 8));
    if (!best || FL_TRY(want_max ? less_than(best->key, key, ">") : less_than(key, best->key)))
      best = Keyed{std::move(key), item};
  }
  return best ? best->value : Value::undefined("No aggregated item, sequence was empty.");
}
Result<Value> f_min(Runtime& r, const Value& value, const Bound& args) { return extreme(r, value, args, false); }
Result<Value> f_max(Runtime& r, const Value& value, const Bound& args) { return extreme(r, value, args, true); }

Result<Value> f_unique(Runtime& runtime, const Value& value, const Bound& args) {
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    const Value key = fold_case(FL_TRY(follow_path(runtime, item, attribute_of(args, 1))), args.flag(0, false));
    if (!is_hashable(key)) return invalid_data("unhashable type: '" + type_name(key) + "'");
    FL_TRY(runtime.charge(key.is_string() ? 1 : seen.entries.size()));
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value(true));
    out.push_back(item);
  }
  return make_iterator(std::move(out), "<generator object sync_do_unique>");
}

Result<Value> f_sum(Runtime& runtime, const Value& value, const Bound& args) {
  Value total = args.value_or(1, Value::integer(0));
  if (total.is_string()) return invalid_data("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    total =
        FL_TRY(apply_binary(runtime, Operator::kAdd, total, FL_TRY(follow_path(runtime, item, attribute_of(args, 0)))));
  }
  return total;
}

Result<Value> f_batch(Runtime& runtime, const Value& value, const Bound& args) {
  const int64_t size = FL_TRY(args.integer(0, 1));
  std::vector<Value> out;
  std::vector<Value> row;
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    if (static_cast<int64_t>(row.size()) == size) {
      out.push_back(FL_TRY(make_list(std::move(row))));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (size > static_cast<int64_t>(runtime.limits().range_items)) return unsupported("batch of more than 100000");
    while (args.is_set(1) && static_cast<int64_t>(row.size()) < size) row.push_back(args[1]);
    out.push_back(FL_TRY(make_list(std::move(row))));
  }
  return make_iterator(std::move(out), "<generator object do_batch>");
}

Result<Value> f_slice(Runtime& runtime, const Value& value, const Bound& args) {
  const std::vector<Value> items = FL_TRY(charged_items(runtime, value));
  const int64_t slices = FL_TRY(args.integer(0, 1));
  if (slices == 0) return invalid_data("integer division or modulo by zero");
  if (slices > static_cast<int64_t>(runtime.limits().range_items)) return unsupported("more than 100000 slices");
  std::vector<Value> out;
  size_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < static_cast<int64_t>(items.size()) % slices;
    const size_t count = items.size() / static_cast<size_t>(slices) + (extra ? 1 : 0);
    std::vector<Value> row(items.begin() + static_cast<ptrdiff_t>(at),
                           items.begin() + static_cast<ptrdiff_t>(at + count));
    at += count;
    if (args.is_set(1) && !extra) row.push_back(args[1]);
    out.push_back(FL_TRY(make_list(std::move(row))));
  }
  return make_iterator(std::move(out), "<generator object sync_do_slice>");
}

Result<Value> f_groupby(Runtime& runtime, const Value& value, const Bound& args) {
  const std::optional<Value> fallback = args.has(1) ? std::optional(args[1]) : std::nullopt;
  const bool sensitive = args.flag(2, false);
  std::vector<Keyed> items;
  for (const Value& item : FL_TRY(charged_items(runtime, value))) {
    items.push_back({fold_case(FL_TRY(follow_path(runtime, item, args[0], fallback)), sensitive), item});
  }
  FL_TRY(runtime.charge(items.size() * 16));
  FL_TRY(sort_stable(items, [](const Keyed& a, const Keyed& b) { return less_than(a.key, b.key); }));
  std::vector<Value> out;
  for (size_t i = 0; i < items.size();) {
    std::vector<Value> group;
    const Value key = sensitive ? items[i].key : FL_TRY(follow_path(runtime, items[i].value, args[0], fallback));
    const size_t start = i;
    for (; i < items.size() && equals(items[i].key, items[start].key); ++i) group.push_back(items[i].value);
    Value tuple = FL_TRY(make_tuple({key, FL_TRY(make_list(std::move(group)))}));
    tuple.as_sequence()->fields = {"grouper", "list"};
    out.push_back(std::move(tuple));
  }
  return make_list(std::move(out));
}

Result<Value> f_items(Runtime&, const Value& value, const Bound&) {
  std::vector<Value> out;
  if (!value.is_undefined()) {
    if (!value.is_dict()) return invalid_data("Can only get item pairs from a mapping.");
    for (const auto& [key, item] : value.as_dict()->entries) out.push_back(FL_TRY(make_tuple({key, item})));
  }
  return make_iterator(std::move(out), "<generator object do_items>");
}

constexpr FilterRow kRows[] = {
    {"length", "", 0, f_length},
    {"count", "", 0, f_length},
    {"list", "", 0, f_list},
    {"first", "", 0, f_first},
    {"last", "", 0, f_last},
    {"reverse", "", 0, f_reverse},
    {"join", "d attribute", 0, f_join},
    {"sort", "reverse case_sensitive attribute", 0, f_sort},
    {"dictsort", "case_sensitive by reverse", 0, f_dictsort},
    {"min", "case_sensitive attribute", 0, f_min},
    {"max", "case_sensitive attribute", 0, f_max},
    {"unique", "case_sensitive attribute", 0, f_unique},
    {"sum", "attribute start", 0, f_sum},
    {"batch", "linecount fill_with", 1, f_batch},
    {"slice", "slices fill_with", 1, f_slice},
    {"groupby", "attribute default case_sensitive", 1, f_groupby},
    {"items", "", 0, f_items},
};

}  // namespace

std::span<const FilterRow> sequence_filters() { return kRows; }

}  // namespace firstlight::text::jinja
