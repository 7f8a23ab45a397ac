// SPDX-License-Identifier: Apache-2.0
// See json_fields.h.
#include "text/tokenizers/json_fields.h"

namespace firstlight::text {
namespace {

Status wrong_type(std::string_view key, std::string_view wanted) {
  return invalid_data("field '" + std::string(key) + "' is not " + std::string(wanted));
}

}  // namespace

Result<JsonElement> parse_document(simdjson::dom::parser& parser, std::string_view json) {
  JsonElement document;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(document);
  if (error != simdjson::SUCCESS) return invalid_data(std::string("JSON: ") + simdjson::error_message(error));
  return document;
}

std::optional<JsonElement> field(const JsonElement& object, std::string_view key) {
  JsonElement value;
  if (!object.is_object() || object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

Result<std::string> string_field(const JsonElement& object, std::string_view key, std::string_view fallback) {
  const auto value = field(object, key);
  if (!value) return std::string(fallback);
  std::string_view text;
  if (value->get_string().get(text) != simdjson::SUCCESS) return wrong_type(key, "a string");
  return std::string(text);
}

Result<bool> bool_field(const JsonElement& object, std::string_view key, bool fallback) {
  const auto value = field(object, key);
  if (!value) return fallback;
  bool result = false;
  if (value->get_bool().get(result) != simdjson::SUCCESS) return wrong_type(key, "true or false");
  return result;
}

Result<int64_t> int_field(const JsonElement& object, std::string_view key, int64_t fallback) {
  const auto value = field(object, key);
  if (!value) return fallback;
  int64_t result = 0;
  if (value->get_int64().get(result) != simdjson::SUCCESS) return wrong_type(key, "a whole number");
  return result;
}

Result<std::vector<JsonElement>> array_field(const JsonElement& object, std::string_view key) {
  std::vector<JsonElement> items;
  const auto value = field(object, key);
  if (!value) return items;
  JsonArray array;
  if (value->get_array().get(array) != simdjson::SUCCESS) return wrong_type(key, "a list");
  for (JsonElement item : array) items.push_back(item);
  return items;
}

Result<std::string> type_of(const JsonElement& component, std::string_view what) {
  if (!component.is_object()) return invalid_data(std::string(what) + ": not an object");
  std::string type = FL_TRY(string_field(component, "type", "").with_context(what));
  if (type.empty()) return invalid_data(std::string(what) + ": no type");
  return type;
}

}  // namespace firstlight::text
