// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_frames.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/schema_merge.h"

namespace firstlight::text {
namespace {

// The schema of a tool's arguments, always an object's. Without parameters there are none.
Json arguments_schema(const ToolSet& tools, const std::string& name) {
  Json schema = tools.parameters(name);
  if (!schema.is_object()) return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  const bool is_typed = std::any_of(schema.items().begin(), schema.items().end(), [](const auto& member) {
    return member.key() == "type" || member.key() == "$ref" || member.key().ends_with("Of");
  });
  if (!is_typed) schema["type"] = "object";
  return schema;
}

// What stands at a place of a tool's schema, which is whole: references are to its root.
Json described(const std::string& tool, const Json& schema, const std::string& at = "#", Json spelling = Json()) {
  Json node = {{"json_schema", dump_json(schema)}, {"at", at}, {"of", "the parameters of tool '" + tool + "'"}};
  if (!spelling.is_null()) node["spelling"] = std::move(spelling);
  return node;
}

// Texts side by side are one, so that a control token is seen across them.
void append(Json& sequence, Json part) {
  if (part.is_string() && !sequence.empty() && sequence.back().is_string()) {
    sequence.back() = sequence.back().get<std::string>() + part.get<std::string>();
  } else {
    sequence.push_back(std::move(part));
  }
}

class CallWriter {
 public:
  CallWriter(const CallSyntax& syntax, const ToolSet& tools)
      : syntax_(syntax), tools_(tools), pattern_(syntax.calls.front()) {}

  Result<Json> calls(const std::vector<std::string>& names, bool one_only) const {
    Json ways = Json::array();
    for (const std::string& name : names) {
      if (!tools_.knows(name)) return invalid_argument("'" + name + "' is none of the tools");
      ways.push_back(FL_TRY(is_list() ? element(name) : around(name, FL_TRY(element(name)))));
    }
    const Json call = {{"any", std::move(ways)}};
    const Json line = {{"optional", "\n"}};
    Json between = line;
    if (is_list()) between = {{"any", {", ", ","}}};
    if (!is_list() && !syntax_.between.empty()) between = Json::array({syntax_.between, {{"optional", " "}}});
    Json all = Json::array({call});
    if (!one_only) all.push_back({{"repeat", Json::array({between, call})}});
    if (is_list()) all = FL_TRY(around("", Json::array({"[", std::move(all), "]"})));
    if (syntax_.begin.empty()) return all;
    return Json::array({syntax_.begin.front(), line, std::move(all), line, syntax_.end.front()});
  }

 private:
  // Python calls stand in brackets but where a line of its own marks them.
  bool is_list() const {
    return pattern_.body == Hole::kCalls || (pattern_.body == Hole::kPython && syntax_.begin.empty());
  }

  // What stands for the holes of a pattern's text.
  static void write(Json& sequence, const std::vector<PatternPart>& parts,
                    std::vector<std::pair<Hole, std::string>> holes) {
    for (const PatternPart& part : parts) {
      if (part.kind != PatternPart::Kind::kHole) {
        append(sequence, part.text);
      } else if (part.hole == Hole::kIndex || part.hole == Hole::kId) {
        append(sequence, {{"regex", part.hole == Hole::kIndex ? "[0-9]" : "[A-Za-z0-9]{9}"}});
      } else {
        for (const auto& [hole, text] : holes) {
          if (hole == part.hole) append(sequence, text);
        }
      }
    }
  }

  Result<Json> around(const std::string& name, const Json& inner) const {
    Json out = Json::array();
    write(out, pattern_.head, {{Hole::kName, name}});
    append(out, pattern_.before_body);
    out.push_back(inner);
    append(out, pattern_.after_body);
    write(out, pattern_.tail, {{Hole::kName, name}});
    return out;
  }

  Result<Json> element(const std::string& name) const {
    const Json schema = arguments_schema(tools_, name);
    switch (pattern_.body) {
      case Hole::kArguments:
        return described(name, schema);
      case Hole::kLoose:
        return described(name, schema, "#", {{"plain", true}, {"quote", syntax_.quote}, {"mark", syntax_.quote}});
      case Hole::kParameters:
        return parameters(name, schema);
      case Hole::kPython:
        return python(name, schema);
      default:
        return object(name, schema);
    }
  }

  // The members of an object with the arguments in it, spaced as schemas are.
  Json object(const std::string& name, const Json& schema) const {
    static const Json kSpace = {{"optional", " "}};
    Json out = Json::array({"{"});
    if (syntax_.keyed) {
      append(out, dump_json(Json(name)) + ":");
    } else {
      append(out, dump_json(Json(syntax_.name_keys.front())) + ":");
      out.insert(out.end(), {kSpace, dump_json(Json(name)) + ",", kSpace});
      append(out, dump_json(Json(syntax_.argument_keys.front())) + ":");
    }
    out.insert(out.end(), {kSpace, described(name, schema), "}"});
    return out;
  }

  struct Property {
    std::string name;
    Json schema;
    std::string at;  // where that stands
    bool is_required = false;
  };

  // The arguments one by one. Errors: kUnsupported where there is more to the schema than that.
  Result<std::vector<Property>> properties(const std::string& tool, const Json& schema) const {
    const auto refuse = [&](const std::string& what) {
      return unsupported("the parameters of tool '" + tool + "': " + what +
                         " cannot be held to where the model writes its arguments one by one");
    };
    std::vector<Property> out;
    const Json required = schema.value("required", Json::array());
    size_t num_required = 0;
    for (const auto& [key, value] : schema.items()) {
      static constexpr std::string_view kKnown[] = {"type",  "properties", "required", "additionalProperties",
                                                    "$defs", "definitions"};
      const bool is_known = std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown);
      if (!is_known && !grammar::is_annotation(key)) return refuse("'" + key + "' at its top");
    }
    const Json all = schema.value("properties", Json::object());
    for (const auto& [key, value] : all.items()) {
      if (value == Json(false)) continue;  // may not be there
      const bool can_be_written = key.find_first_of(" \t\r\n<>{}[](),:='\"") == std::string::npos && !key.empty();
      if (!can_be_written) return refuse("a parameter named '" + key.substr(0, 80) + "'");
      Property one{.name = key, .schema = value, .at = "#/properties" + grammar::pointer_part(key)};
      one.is_required = std::find(required.begin(), required.end(), Json(key)) != required.end();
      num_required += one.is_required ? 1 : 0;
      out.push_back(std::move(one));
    }
    if (num_required != required.size()) return refuse("a required parameter that is not described");
    return out;
  }

  Result<Json> python(const std::string& name, const Json& schema) const {
    Json arguments = Json::array();
    for (const Property& one : FL_TRY(properties(name, schema))) {
      Json argument = Json::array({one.name + "=", described(name, schema, one.at)});
      arguments.push_back(one.is_required ? std::move(argument) : Json{{"optional", std::move(argument)}});
    }
    return Json::array({name + "(", {{"separated", std::move(arguments)}, {"by", ", "}}, ")"});
  }

  static std::string type_name(TypeSet types) {
    static constexpr std::pair<TypeSet, const char*> kNames[] = {
        {kString, "string"}, {kObject, "object"}, {kArray, "array"}, {kBoolean, "boolean"}, {kNull, "null"}};
    for (const auto& [type, name] : kNames) {
      if (types == type) return name;
    }
    return "number";
  }

  // Strings as they are, where nothing else may stand there; else JSON. Nothing has what ends a value in it.
  Result<Json> parameters(const std::string& name, const Json& schema) const {
    const Pattern& pattern = *syntax_.parameter;
    const bool line_behind = pattern.tail.front().kind == PatternPart::Kind::kSpace;
    const std::string& mark = pattern.tail[line_behind ? 1 : 0].text;
    Json out = Json::array();
    for (const Property& one : FL_TRY(properties(name, schema))) {
      const TypeSet types = tools_.types(name, one.name);
      const bool is_text = types == kString;
      const bool is_free = !one.schema.is_object() ||
                           std::all_of(one.schema.items().begin(), one.schema.items().end(),
                                       [](const auto& member) { return grammar::is_annotation(member.key()); });
      if (types == 0 && !is_free) {
        return unsupported("the parameters of tool '" + name + "': the type of '" + one.name + "' is not said");
      }
      Json parameter = Json::array();
      write(parameter, pattern.head,
            {{Hole::kKey, one.name}, {Hole::kType, type_name(types)}, {Hole::kString, is_text ? "true" : "false"}});
      parameter.push_back(described(name, schema, one.at, {{"plain", is_text}, {"mark", mark}}));
      write(parameter, pattern.tail, {});
      append(parameter, pattern_.before_body);
      out.push_back(one.is_required ? std::move(parameter) : Json{{"optional", std::move(parameter)}});
    }
    return out;
  }

  const CallSyntax& syntax_;
  const ToolSet& tools_;
  const Pattern& pattern_;
};

}  // namespace

Result<Json> call_structure(const CallSyntax& syntax, const ToolSet& tools, const std::vector<std::string>& names,
                            bool one_only) {
  return CallWriter(syntax, tools).calls(names, one_only);
}

}  // namespace firstlight::text
