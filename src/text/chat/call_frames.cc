// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_frames.h"

#include <algorithm>

#include "base/json.h"

namespace firstlight::text {
namespace {

// The parts as text; a hole that is not the name is left out, a number is 0.
std::string written(const std::vector<PatternPart>& parts, const std::string& name) {
  std::string out;
  for (const PatternPart& part : parts) {
    if (part.kind != PatternPart::Kind::kHole) {
      out += part.text;
    } else if (part.hole == Hole::kName) {
      out += name;
    } else if (part.hole == Hole::kIndex) {
      out += "0";
    }
  }
  return out;
}

Json closed_object(std::vector<std::pair<std::string, Json>> members) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  for (auto& [name, member] : members) {
    schema["properties"][name] = std::move(member);
    schema["required"].push_back(name);
  }
  schema["additionalProperties"] = false;
  return schema;
}

// A schema's references are to its own root, which it no longer is once it stands in another: its definitions move
// along.
Json call_schema(const CallSyntax& syntax, const std::string& name, Json parameters) {
  Json definitions = Json::object();
  for (const char* key : {"$defs", "definitions"}) {
    if (!parameters.is_object() || !parameters.contains(key)) continue;
    definitions[key] = parameters[key];
    parameters.erase(key);
  }
  Json schema = syntax.keyed ? closed_object({{name, std::move(parameters)}})
                             : closed_object({{syntax.name_keys.front(), {{"const", name}}},
                                              {syntax.argument_keys.front(), std::move(parameters)}});
  schema.update(definitions);
  return schema;
}

CallFrame frame(const CallSyntax& syntax, const Pattern& call, const std::string& name, Json parameters) {
  if (!parameters.is_object()) parameters = {{"type", "object"}};
  CallFrame out;
  out.before = (syntax.begin.empty() ? "" : syntax.begin.front()) + written(call.head, name);
  out.after = written(call.tail, name) + (syntax.end.empty() ? "" : syntax.end.front());
  if (call.body == Hole::kArguments) {
    out.schema = dump_json(parameters);
    return out;
  }
  if (call.body == Hole::kCalls) {
    out.before += "[";
    out.after.insert(0, "]");
  }
  out.schema = dump_json(call_schema(syntax, name, std::move(parameters)));
  return out;
}

}  // namespace

Result<std::vector<CallFrame>> call_frames(const CallSyntax& syntax, const ToolSet& tools, std::string_view name) {
  const Pattern& call = syntax.calls.front();
  if (call.body != Hole::kCall && call.body != Hole::kCalls && call.body != Hole::kArguments) {
    return unsupported("the model does not write the arguments of calls as JSON");
  }
  if (!name.empty() && !tools.knows(name)) return invalid_argument("'" + std::string(name) + "' is none of the tools");
  std::vector<CallFrame> out;
  for (const std::string& one : tools.names()) {
    if (name.empty() || one == name) out.push_back(frame(syntax, call, one, tools.parameters(one)));
  }
  return out;
}

}  // namespace firstlight::text
