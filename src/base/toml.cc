// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <sstream>

#include "base/json.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace firstlight {
namespace {

Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& value : *array) list.push_back(json_of(value));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

}  // namespace

Result<Json> parse_toml(std::string_view text) {
  const toml::parse_result result = toml::parse(text);
  if (result) return json_of(result.table());
  const toml::parse_error& error = result.error();
  const toml::source_position& place = error.source().begin;
  return invalid_data("TOML, line " + std::to_string(place.line) + ", column " + std::to_string(place.column) + ": " +
                      std::string(error.description()));
}

}  // namespace firstlight
