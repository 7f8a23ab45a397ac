// SPDX-License-Identifier: Apache-2.0
// Reading fields of a parsed JSON object with a default and a named error. Heavy header (simdjson): for sources only.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::text {

using JsonElement = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

// Parses a document; the parser owns it. Errors: kInvalidData.
Result<JsonElement> parse_document(simdjson::dom::parser& parser, std::string_view json);

// The field, or nothing when it is missing or null.
std::optional<JsonElement> field(const JsonElement& object, std::string_view key);

// Errors of all: kInvalidData when the field has another type (null and missing give the default).
Result<std::string> string_field(const JsonElement& object, std::string_view key, std::string_view fallback);
Result<bool> bool_field(const JsonElement& object, std::string_view key, bool fallback);
Result<int64_t> int_field(const JsonElement& object, std::string_view key, int64_t fallback);
Result<std::vector<JsonElement>> array_field(const JsonElement& object, std::string_view key);

// The "type" of a component. Errors: kInvalidData when it is no object or has no type.
Result<std::string> type_of(const JsonElement& component, std::string_view what);

}  // namespace firstlight::text
