// SPDX-License-Identifier: Apache-2.0
#include "server/tool_fields.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "server/openai_api.h"

namespace firstlight::server {
namespace {

constexpr size_t kLongestName = 64;

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-' ||
           c == '.';
  });
}

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool want(FieldReader& fields, const std::string& name, const Json* value, bool is_there, const char* what) {
  if (!is_there)
    fields.fail(name, (value == nullptr ? "missing, " : std::string(json_type_name(*value)) + ", ") + what);
  return is_there;
}

// A name that is written as functions are; "" after telling `fields`.
std::string function_name(FieldReader& fields, const std::string& at, const Json& holder) {
  const Json* function = member(holder, "function");
  if (!want(fields, at, function, function != nullptr && function->is_object(), "an object wanted")) return "";
  const Json* name = member(*function, "name");
  if (!want(fields, at + ".name", name, name != nullptr && name->is_string(), "a string wanted")) return "";
  if (is_name(name->get<std::string>())) return name->get<std::string>();
  fields.fail(at + ".name", "'" + name->get<std::string>().substr(0, 80) +
                                "', 1 to 64 letters, digits, dots, underscores and dashes wanted");
  return "";
}

void check_tool(FieldReader& fields, const std::string& at, const Json& tool, std::set<std::string>& names) {
  if (!want(fields, at, &tool, tool.is_object(), "an object wanted")) return;
  const Json* type = member(tool, "type");
  if (!want(fields, at + ".type", type, type != nullptr && type->is_string(), "\"function\" wanted")) return;
  if (*type != "function") {
    fields.fail(unsupported_field(at + ".type", "'" + type->get<std::string>().substr(0, 40) + "', only functions"));
    return;
  }
  const std::string function_at = at + ".function";
  const std::string name = function_name(fields, function_at, tool);
  if (name.empty()) return;
  if (!names.insert(name).second) fields.fail(function_at + ".name", "'" + name + "' a second time");
  const Json& function = tool["function"];
  const Json* description = member(function, "description");
  want(fields, function_at + ".description", description, description == nullptr || description->is_string(),
       "a string wanted");
  const Json* strict = member(function, "strict");
  want(fields, function_at + ".strict", strict, strict == nullptr || strict->is_boolean(), "true or false wanted");
  const Json* schema = member(function, "parameters");
  const std::string schema_at = function_at + ".parameters";
  if (schema == nullptr || !want(fields, schema_at, schema, schema->is_object(), "a JSON Schema wanted")) return;
  const Json* of = member(*schema, "type");
  if (of != nullptr && *of != "object") fields.fail(schema_at + ".type", "\"object\" wanted: arguments have names");
}

class ToolChoiceReader {
 public:
  ToolChoiceReader(FieldReader& fields, ApiRequest& request, const Json& tools, const std::set<std::string>& names)
      : fields_(fields), request_(request), tools_(tools), names_(names) {}

  void read(const Json& choice) {
    if (choice == "none") {
      request_.tool_choice = ToolChoice::kNone;
    } else if (choice == "required") {
      request_.tool_choice = ToolChoice::kRequired;
    } else if (choice.is_object() && choice.value("type", Json()) == "function") {
      request_.tool_choice = ToolChoice::kNamed;
      request_.named_tool = known_name("tool_choice.function", choice);
    } else if (choice.is_object() && choice.value("type", Json()) == "allowed_tools") {
      read_allowed(choice);
    } else if (choice != "auto") {
      fields_.fail("tool_choice",
                   "one of \"auto\", \"none\", \"required\", a function by its name, or allowed_tools wanted");
    }
    const bool wants_call = request_.tool_choice == ToolChoice::kRequired || request_.tool_choice == ToolChoice::kNamed;
    if (wants_call && names_.empty()) fields_.fail("tool_choice", "a call wanted, and no tools");
  }

 private:
  std::string known_name(const std::string& at, const Json& holder) {
    const std::string name = function_name(fields_, at, holder);
    if (!name.empty() && names_.count(name) == 0) fields_.fail(at + ".name", "'" + name + "' is none of the tools");
    return name;
  }

  // The others are not there for this answer.
  void read_allowed(const Json& choice) {
    const std::string at = "tool_choice.allowed_tools";
    const Json* allowed = member(choice, "allowed_tools");
    if (!want(fields_, at, allowed, allowed != nullptr && allowed->is_object(), "an object wanted")) return;
    const Json mode = allowed->value("mode", Json());
    if (mode != "auto" && mode != "required") fields_.fail(at + ".mode", "\"auto\" or \"required\" wanted");
    if (mode == "required") request_.tool_choice = ToolChoice::kRequired;
    const Json* list = member(*allowed, "tools");
    const bool is_list = list != nullptr && list->is_array() && !list->empty();
    if (!want(fields_, at + ".tools", list, is_list, "functions by their names wanted")) return;
    std::set<std::string> wanted;
    for (size_t i = 0; i < list->size() && fields_.ok(); ++i) {
      const std::string one = at + ".tools[" + std::to_string(i) + "]";
      if (want(fields_, one, &(*list)[i], (*list)[i].is_object(), "an object wanted")) {
        wanted.insert(known_name(one + ".function", (*list)[i]));
      }
    }
    request_.tools = Json::array();
    request_.tool_places.clear();
    for (size_t i = 0; i < tools_.size(); ++i) {
      if (wanted.count(tools_[i]["function"]["name"].get<std::string>()) == 0) continue;
      request_.tools.push_back(tools_[i]);
      request_.tool_places.push_back(i);
    }
  }

  FieldReader& fields_;
  ApiRequest& request_;
  const Json& tools_;
  const std::set<std::string>& names_;
};

}  // namespace

void read_tools(FieldReader& fields, ApiRequest& request) {
  static const Json kNone = Json::array();
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls", true);
  if (tools == nullptr) tools = &kNone;
  if (!want(fields, "tools", tools, tools->is_array(), "an array wanted")) return;
  std::set<std::string> names;
  for (size_t i = 0; i < tools->size() && fields.ok(); ++i) {
    check_tool(fields, "tools[" + std::to_string(i) + "]", (*tools)[i], names);
  }
  if (!fields.ok()) return;
  if (!tools->empty()) request.tools = *tools;
  request.tool_places.resize(tools->size());
  std::iota(request.tool_places.begin(), request.tool_places.end(), size_t{0});
  if (choice == nullptr) return;
  request.said_tool_choice = *choice;
  ToolChoiceReader(fields, request, *tools, names).read(*choice);
  if (request.tool_choice == ToolChoice::kNone) request.tools = Json();
}

}  // namespace firstlight::server
