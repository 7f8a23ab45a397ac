// SPDX-License-Identifier: Apache-2.0
// The table of filters: Jinja2's, with transformers' `tojson`. What is refused (random and HTML or URL things) is
// listed too, so that a template that uses it fails at load with the name.
#pragma once

#include <span>

#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

struct FilterRow {
  std::string_view name;
  std::string_view params;  // names separated by spaces, for keyword arguments; "*": takes them as they come
  size_t required = 0;
  Result<Value> (*apply)(Runtime&, const Value&, const Bound&) = nullptr;
  Result<Value> (*apply_any)(Runtime&, const Value&, CallArgs) = nullptr;
};

// Null for names that Jinja2 does not have either.
const FilterRow* find_filter(std::string_view name);
// Filters of Jinja2 that this engine refuses.
bool is_refused_filter(std::string_view name);
Result<Value> apply_filter(Runtime& runtime, const FilterRow& row, const Value& value, CallArgs args);
// Whether the row takes a keyword argument of this name.
bool takes_keyword(std::string_view params, std::string_view name);

// The parts of the table.
std::span<const FilterRow> text_filters();
std::span<const FilterRow> sequence_filters();
std::span<const FilterRow> selection_filters();
std::span<const FilterRow> scalar_filters();

// `attribute` of map, sort, join … : a dotted path (digits are indexes) followed by get_item; `fallback` for undefined.
Result<Value> follow_path(Runtime& runtime, Value item, const Value& path,
                          const std::optional<Value>& fallback = std::nullopt);

}  // namespace firstlight::text::jinja
