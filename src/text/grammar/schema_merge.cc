// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"

namespace firstlight::text::grammar {
namespace {

constexpr int kMostNested = 64;
constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "object", "array",
                                                    "string", "number",  "integer"};
constexpr std::array<std::string_view, 17> kAnnotations = {
    "title",         "description", "default",    "examples",    "$comment", "deprecated",       "readOnly",
    "writeOnly",     "$schema",     "$defs",      "definitions", "$anchor",  "contentMediaType", "contentEncoding",
    "discriminator", "$id",         "$vocabulary"};

bool has(const std::vector<std::string>& list, std::string_view one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Its constants, where it has some.
const Json* constants(const Json& schema, Json& room) {
  if (const Json* one = member(schema, "const")) {
    room = Json::array({*one});
    return &room;
  }
  const Json* list = member(schema, "enum");
  return list != nullptr && list->is_array() ? list : nullptr;
}

bool contains(const Json& list, const Json& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

bool is_integer_value(const Json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return number == static_cast<double>(static_cast<int64_t>(std::clamp(number, -9e18, 9e18)));
}

// What `schema` says of a member of this name; true: anything.
Json member_schema(const Json& schema, const std::string& name) {
  if (const Json* properties = member(schema, "properties"); properties != nullptr && properties->is_object()) {
    if (const auto found = properties->find(name); found != properties->end()) return *found;
  }
  const Json* others = member(schema, "additionalProperties");
  return others != nullptr ? *others : Json(true);
}

bool requires_member(const Json& schema, const std::string& name) {
  const Json* required = member(schema, "required");
  return required != nullptr && required->is_array() && contains(*required, Json(name));
}

std::vector<std::string> property_names(const Json& a, const Json& b) {
  std::vector<std::string> names;
  for (const Json* schema : {&a, &b}) {
    const Json* properties = member(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [name, unused] : properties->items()) {
      if (schema == &a || !member(a, "properties") || !(*member(a, "properties")).contains(name)) names.push_back(name);
    }
  }
  return names;
}

size_t deep_size(const Json& value) {
  size_t size = 1;
  if (value.is_structured()) {
    for (const Json& one : value) size += deep_size(one);
  }
  return size;
}

bool says_nothing(const Json& schema) {
  if (!schema.is_object()) return schema == Json(true);
  const auto items = schema.items();
  return std::all_of(items.begin(), items.end(), [](const auto& item) { return is_annotation(item.key()); });
}

}  // namespace

bool is_annotation(const std::string& keyword) {
  return std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end();
}

std::string_view type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  return is_integer_value(value) ? "integer" : "number";
}

std::vector<std::string> types_of(const Json& schema) {
  std::vector<std::string> types;
  if (const Json* type = member(schema, "type")) {
    for (const Json& one : type->is_array() ? *type : Json::array({*type})) {
      if (one.is_string()) types.push_back(one.get<std::string>());
    }
    if (has(types, "number") && !has(types, "integer")) types.emplace_back("integer");
    return types;
  }
  Json room;
  if (const Json* list = constants(schema, room)) {
    for (const Json& value : *list) types.emplace_back(type_of(value));
    return types;
  }
  return {kTypes.begin(), kTypes.end()};
}

Status SchemaMerger::spend(size_t steps) {
  if (steps > left_) return invalid_argument("the schema's parts multiply beyond measure");
  left_ -= steps;
  return ok_status();
}

Result<const Json*> SchemaMerger::find(const std::string& reference) const {
  if (!reference.starts_with('#')) return unsupported("a reference into another document");
  if (reference.size() > 1 && reference[1] != '/') return unsupported("a reference to an anchor");
  const Json* at = &document_;
  for (size_t pos = 1; pos < reference.size();) {
    const size_t end = std::min(reference.find('/', pos + 1), reference.size());
    std::string part;
    for (size_t i = pos + 1; i < end; ++i) {
      const bool escape = reference[i] == '~' && i + 1 < end;
      if (escape) ++i;
      part += escape ? (reference[i] == '1' ? '/' : '~') : reference[i];
    }
    const bool is_index =
        at->is_array() && !part.empty() && part.size() < 7 && part.find_first_not_of("0123456789") == std::string::npos;
    if (at->is_object() && at->contains(part)) {
      at = &(*at)[part];
    } else if (is_index && std::stoul(part) < at->size()) {
      at = &(*at)[std::stoul(part)];
    } else {
      return invalid_argument("nothing is at '" + reference.substr(0, 200) + "'");
    }
    pos = end;
  }
  return at;
}

Result<Json> SchemaMerger::flatten(const Json& schema) {
  FL_TRY(spend(deep_size(schema)));
  Json flat = schema;
  const int depth_before = depth_;
  while (flat.is_object() && (flat.contains("$ref") || flat.contains("allOf"))) {
    if (depth_ >= kMostNested) return invalid_argument("references in a circle, or too many inside one another");
    ++depth_;
    Json own = Json::object();
    for (const auto& [name, value] : flat.items()) {
      if (name != "$ref" && name != "allOf") own[name] = value;
    }
    if (const Json* reference = member(flat, "$ref")) {
      if (!reference->is_string()) return invalid_argument("a $ref that is no string");
      own = FL_TRY(merge(own, *FL_TRY(find(reference->get<std::string>()))));
    }
    if (const Json* all = member(flat, "allOf")) {
      if (!all->is_array() || all->empty()) return invalid_argument("an allOf that is no list of schemas");
      for (const Json& one : *all) own = FL_TRY(merge(own, one));
    }
    flat = std::move(own);
  }
  depth_ = depth_before;
  return flat;
}

Result<Json> SchemaMerger::merge(const Json& a, const Json& b) {
  FL_TRY(spend(deep_size(a) + deep_size(b)));
  // What says nothing leaves the other as it is, references and all: a schema may go on into itself.
  if (says_nothing(b)) return a;
  if (says_nothing(a)) return b;
  if (depth_ >= kMostNested) return invalid_argument("references in a circle, or too many inside one another");
  ++depth_;
  Json merged = FL_TRY(merge_flat(FL_TRY(flatten(a)), FL_TRY(flatten(b))));
  --depth_;
  return merged;
}

Result<Json> SchemaMerger::merge_flat(const Json& a, const Json& b) {
  for (const Json* one : {&a, &b}) {
    const Json& other = one == &a ? b : a;
    if (one->is_boolean()) return one->get<bool>() ? other : Json(false);
    if (!one->is_object()) return invalid_argument("a schema that is neither an object nor a boolean");
  }
  FL_TRY(spend(a.size() + b.size()));
  Json out = Json::object();
  Json room_a, room_b;
  const Json* values_a = constants(a, room_a);
  const Json* values_b = constants(b, room_b);
  for (const Json* one : {&a, &b}) {
    const Json& other = one == &a ? b : a;
    for (const auto& [name, value] : one->items()) {
      if (name == "properties" || name == "required" || name == "additionalProperties" || name == "items" ||
          name == "prefixItems" || name == "const" || name == "enum" || name == "type") {
        continue;  // below
      }
      const Json* theirs = member(other, name.c_str());
      if (theirs == nullptr || *theirs == value || is_annotation(name)) {
        if (!out.contains(name)) out[name] = value;
        continue;
      }
      const bool is_least =
          name == "minimum" || name == "exclusiveMinimum" || name == "minLength" || name == "minItems";
      const bool is_most = name == "maximum" || name == "exclusiveMaximum" || name == "maxLength" || name == "maxItems";
      if ((is_least || is_most) && value.is_number() && theirs->is_number()) {
        out[name] = (value < *theirs) == is_least ? *theirs : value;
      } else if (name == "anyOf" && value.is_array() && theirs->is_array()) {
        if (one == &b) continue;
        Json both = Json::array();
        for (const Json& x : value) {
          for (const Json& y : *theirs) both.push_back(FL_TRY(merge(x, y)));
        }
        out[name] = std::move(both);
      } else {
        return unsupported("two different '" + name + "' taken together (allOf, or beside $ref, anyOf or oneOf)");
      }
    }
  }
  if (values_a != nullptr || values_b != nullptr) {
    Json both = Json::array();
    FL_TRY(spend(values_a && values_b ? values_a->size() * values_b->size() / 16 : 1));
    for (const Json& value : values_a ? *values_a : *values_b) {
      if (!values_a || !values_b || contains(*values_b, value)) both.push_back(value);
    }
    if (both.empty()) return Json(false);
    out["enum"] = std::move(both);
  }
  if (a.contains("type") || b.contains("type")) {
    Json types = Json::array();
    const Json without = Json::object();
    const auto of_a = types_of(a.contains("type") ? Json{{"type", a["type"]}} : without);
    const auto of_b = types_of(b.contains("type") ? Json{{"type", b["type"]}} : without);
    for (const std::string_view type : kTypes) {
      if (has(of_a, type) && has(of_b, type)) types.push_back(std::string(type));
    }
    if (types.empty()) return Json(false);
    out["type"] = std::move(types);
  }
  FL_TRY(merge_objects(a, b, out));
  FL_TRY(merge_arrays(a, b, out));
  return out;
}

Status SchemaMerger::merge_objects(const Json& a, const Json& b, Json& out) {
  const auto names = property_names(a, b);
  FL_TRY(spend(names.size() * (names.size() / 64 + 1)));
  if (member(a, "properties") || member(b, "properties")) out["properties"] = Json::object();
  for (const std::string& name : names) {
    Json both = FL_TRY(merge(member_schema(a, name), member_schema(b, name)).with_context("member '" + name + "'"));
    out["properties"][name] = std::move(both);
  }
  for (const Json* one : {&a, &b}) {
    const Json* required = member(*one, "required");
    if (required == nullptr) continue;
    if (!required->is_array()) return invalid_argument("a 'required' that is no list");
    Json& both = out["required"];
    if (both.is_null()) both = Json::array();
    FL_TRY(spend(both.size() * required->size() / 16));
    const size_t num_others = both.size();
    for (const Json& name : *required) {
      if (std::find(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(num_others), name) ==
          both.begin() + static_cast<std::ptrdiff_t>(num_others)) {
        both.push_back(name);
      }
    }
  }
  const Json* others_a = member(a, "additionalProperties");
  const Json* others_b = member(b, "additionalProperties");
  if (others_a != nullptr || others_b != nullptr) {
    out["additionalProperties"] = FL_TRY(merge(others_a ? *others_a : Json(true), others_b ? *others_b : Json(true)));
  }
  return ok_status();
}

Status SchemaMerger::merge_arrays(const Json& a, const Json& b, Json& out) {
  const auto at = [](const Json& schema, size_t i) {
    const Json* prefix = member(schema, "prefixItems");
    if (prefix != nullptr && prefix->is_array() && i < prefix->size()) return (*prefix)[i];
    const Json* items = member(schema, "items");
    return items != nullptr ? *items : Json(true);
  };
  size_t count = 0;
  for (const Json* one : {&a, &b}) {
    if (const Json* prefix = member(*one, "prefixItems")) count = std::max(count, prefix->size());
  }
  FL_TRY(spend(count));
  for (size_t i = 0; i < count; ++i) out["prefixItems"].push_back(FL_TRY(merge(at(a, i), at(b, i))));
  if (a.contains("items") || b.contains("items")) out["items"] = FL_TRY(merge(at(a, SIZE_MAX), at(b, SIZE_MAX)));
  return ok_status();
}

Result<bool> SchemaMerger::are_apart(const Json& first, const Json& second, int depth) {
  if (depth > 4) return false;
  const Json a = FL_TRY(flatten(first));
  const Json b = FL_TRY(flatten(second));
  if (a == Json(false) || b == Json(false)) return true;
  if (!a.is_object() || !b.is_object()) return false;
  const auto types_a = types_of(a), types_b = types_of(b);
  FL_TRY(spend(8));
  if (std::none_of(types_a.begin(), types_a.end(), [&](const std::string& type) { return has(types_b, type); })) {
    return true;
  }
  Json room_a, room_b;
  const Json* values_a = constants(a, room_a);
  const Json* values_b = constants(b, room_b);
  if (values_a != nullptr && values_b != nullptr) {
    FL_TRY(spend(values_a->size() * values_b->size() / 16));
    return std::none_of(values_a->begin(), values_a->end(), [&](const Json& one) { return contains(*values_b, one); });
  }
  const auto is_object = [](const std::vector<std::string>& types) {
    return types.size() == 1 && types[0] == "object";
  };
  if (!is_object(types_a) || !is_object(types_b)) return false;
  const auto names = property_names(a, b);
  FL_TRY(spend(names.size() * 2));
  for (const std::string& name : names) {
    const bool in_a = requires_member(a, name), in_b = requires_member(b, name);
    if (!in_a && !in_b) continue;
    // A member that one has to have: what the other says of it decides, if only by forbidding it.
    const Json of_a = member_schema(a, name), of_b = member_schema(b, name);
    if ((in_a && of_b == Json(false)) || (in_b && of_a == Json(false))) return true;
    if (in_a && in_b && FL_TRY(are_apart(of_a, of_b, depth + 1))) return true;
  }
  return false;
}

}  // namespace firstlight::text::grammar
