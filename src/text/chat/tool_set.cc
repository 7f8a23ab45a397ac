// SPDX-License-Identifier: Apache-2.0
#include "text/chat/tool_set.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/chat/loose_value.h"
#include "text/chat/pattern.h"

namespace firstlight::text {
namespace {

constexpr int kMaxSchemaDepth = 8;
const Json kNoSchema;

const Json* member(const Json& object, const std::string& name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

TypeSet type_named(const Json& name) {
  static constexpr std::pair<std::string_view, TypeSet> kNames[] = {
      {"string", kString}, {"integer", kInteger}, {"number", kNumber}, {"boolean", kBoolean},
      {"object", kObject}, {"array", kArray},     {"null", kNull},
  };
  for (const auto& [known, type] : kNames) {
    if (name == known) return type;
  }
  return 0;
}

TypeSet type_of(const Json& value) {
  if (value.is_string()) return kString;
  if (value.is_boolean()) return kBoolean;
  if (value.is_null()) return kNull;
  if (value.is_object()) return kObject;
  if (value.is_array()) return kArray;
  return value.is_number_integer() ? kInteger : kNumber;
}

// "#/$defs/Place" in the schema it stands in.
const Json* resolve(const Json& root, const Json& reference) {
  if (!reference.is_string()) return nullptr;
  const std::string path = reference.get<std::string>();
  if (!path.starts_with("#/")) return nullptr;
  const Json* at = &root;
  for (size_t begin = 2; at != nullptr && begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    at = member(*at, path.substr(begin, end - begin));
    begin = end + 1;
  }
  return at;
}

TypeSet types_of(const Json& root, const Json& schema, int depth) {
  if (depth > kMaxSchemaDepth) return 0;
  TypeSet types = 0;
  if (const Json* type = member(schema, "type")) {
    if (!type->is_array()) return type_named(*type);
    for (const Json& one : *type) types |= type_named(one);
    return types;
  }
  if (const Json* reference = member(schema, "$ref")) {
    if (const Json* target = resolve(root, *reference)) types |= types_of(root, *target, depth + 1);
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const Json* list = member(schema, name);
    for (size_t i = 0; list != nullptr && list->is_array() && i < list->size(); ++i) {
      types |= types_of(root, (*list)[i], depth + 1);
    }
  }
  const Json* values = member(schema, "enum");
  for (size_t i = 0; values != nullptr && values->is_array() && i < values->size(); ++i) types |= type_of((*values)[i]);
  if (const Json* value = member(schema, "const")) types |= type_of(*value);
  return types;
}

bool fits(const Json& value, TypeSet types) {
  const TypeSet own = type_of(value);
  if (types == 0) return own != kString;
  if (own == kInteger) return (types & (kInteger | kNumber)) != 0;
  return (types & own) != 0;
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  for (size_t i = 0; tools.is_array() && i < tools.size(); ++i) {
    const Json* function = member(tools[i], "function");
    if (function == nullptr) function = &tools[i];
    const Json* name = member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    const Json* schema = member(*function, "parameters");
    parameters_[name->get<std::string>()] = std::make_shared<const Json>(schema == nullptr ? Json() : *schema);
  }
}

std::vector<std::string> ToolSet::names() const {
  std::vector<std::string> out;
  for (const auto& [name, schema] : parameters_) out.push_back(name);
  return out;
}

const Json& ToolSet::parameters(std::string_view name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? kNoSchema : *found->second;
}

TypeSet ToolSet::types(std::string_view name, const std::string& parameter) const {
  const Json& root = parameters(name);
  const Json* properties = member(root, "properties");
  const Json* schema = properties == nullptr ? nullptr : member(*properties, parameter);
  return schema == nullptr ? 0 : types_of(root, *schema, 0);
}

Json typed_value(std::string_view text, TypeSet types) {
  const std::string_view trimmed = trim_blanks(text);
  if (types == kString) return std::string(text);
  if (auto parsed = parse_json(trimmed); parsed.ok()) {
    // A value of another type than the schema's is for the client to judge; only a string may have been meant as text.
    if (fits(*parsed, types) || (types != 0 && (types & kString) == 0)) return *std::move(parsed);
    return std::string(text);
  }
  if (types != 0) {
    if (auto loose = read_loose_value(trimmed); loose && fits(*loose, types) && !loose->is_string()) return *loose;
  }
  return std::string(text);
}

}  // namespace firstlight::text
