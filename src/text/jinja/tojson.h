// SPDX-License-Identifier: Apache-2.0
// JSON text as Python's json.dumps writes it, with the options transformers gives its `tojson` filter.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // one level of indentation; given: one item per line
  Text item_separator;
  Text key_separator;
};

// Errors: kInvalidData for what Python can not serialise (undefined, views, functions …).
Result<Value> to_json(Runtime& runtime, const Value& value, const JsonStyle& style);
// The options as the filter's arguments name them: ensure_ascii indent separators sort_keys.
Result<JsonStyle> json_style(const Bound& args);

}  // namespace firstlight::text::jinja
