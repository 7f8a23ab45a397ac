// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/filters.h"

#include <algorithm>

#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"

namespace firstlight::text::jinja {

const FilterRow* find_filter(std::string_view name) {
  for (const auto rows : {text_filters(), sequence_filters(), selection_filters(), scalar_filters()}) {
    for (const FilterRow& row : rows) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

bool is_refused_filter(std::string_view name) {
  static constexpr std::string_view kRefused[] = {"pprint", "random",   "striptags", "urlencode",
                                                  "urlize", "wordwrap", "xmlattr"};
  return std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
}

bool takes_keyword(std::string_view params, std::string_view name) {
  if (params == "*") return true;
  while (!params.empty()) {
    const size_t end = std::min(params.find(' '), params.size());
    if (params.substr(0, end) == name) return true;
    params.remove_prefix(std::min(params.size(), end + 1));
  }
  return false;
}

Result<Value> apply_filter(Runtime& runtime, const FilterRow& row, const Value& value, CallArgs args) {
  FL_TRY(runtime.charge(2 + (value.is_string() ? value.as_text().size() / 8 : 0)));
  if (row.apply_any != nullptr) return row.apply_any(runtime, value, std::move(args));
  return row.apply(runtime, value, FL_TRY(Bound::bind(row.name, row.params, row.required, std::move(args))));
}

Result<Value> follow_path(Runtime& runtime, Value item, const Value& path, const std::optional<Value>& fallback) {
  const auto step = [&](const Value& part) -> Status {
    item = FL_TRY(get_item(runtime, item, part));
    if (item.is_undefined() && fallback.has_value() && !fallback->is_none()) item = *fallback;
    return ok_status();
  };
  if (path.is_none()) return item;
  if (!path.is_string()) {
    FL_TRY(step(path));
    return item;
  }
  for (const Text& part : split(path.as_text(), ".", -1)) {
    const bool numeric = !part.empty() && part.view().find_first_not_of("0123456789") == std::string_view::npos;
    FL_TRY(step(numeric ? Value::integer(parse_int(part.view(), 10).value_or(0)) : Value(part)));
  }
  return item;
}

}  // namespace firstlight::text::jinja
