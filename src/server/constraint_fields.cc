// SPDX-License-Identifier: Apache-2.0
#include "server/constraint_fields.h"

#include <string>
#include <utility>

#include "server/openai_api.h"
#include "server/prompt.h"
#include "text/chat/answer_structure.h"
#include "text/chat/call_frames.h"

namespace firstlight::server {
namespace {

using Kind = text::grammar::ConstraintSpec::Kind;

struct Found {
  FieldReader& fields;
  ApiRequest& request;

  void set(const std::string& field, Kind kind, std::string text) {
    if (request.constraint) {
      fields.fail(field, "beside " + request.constraint_field + "; one constraint wanted");
      return;
    }
    request.constraint = {kind, std::move(text)};
    request.constraint_field = field;
  }

  // A schema is JSON, or a string that holds JSON.
  void schema(const std::string& field, const Json* value) {
    if (value == nullptr) return;
    if (value->is_object() || value->is_boolean()) {
      set(field, Kind::kJsonSchema, dump_json(*value));
    } else if (value->is_string()) {
      set(field, Kind::kJsonSchema, value->get<std::string>());
    } else {
      fields.fail(field, std::string(json_type_name(*value)) + ", a JSON Schema wanted");
    }
  }

  void text(const std::string& field, Kind kind, const Json* value) {
    if (value == nullptr) return;
    if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
      fields.fail(field,
                  value->is_string() ? "an empty string" : std::string(json_type_name(*value)) + ", a string wanted");
      return;
    }
    set(field, kind, value->get<std::string>());
  }

  void choice(const std::string& field, const Json* value) {
    if (value == nullptr) return;
    if (!value->is_array()) {
      fields.fail(field, std::string(json_type_name(*value)) + ", an array of strings wanted");
      return;
    }
    set(field, Kind::kChoice, dump_json(*value));
  }
};

void read_response_format(FieldReader& fields, Found found) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) {
    fields.fail("response_format", std::string(json_type_name(*format)) + ", an object wanted");
    return;
  }
  FieldReader inner(*format, "response_format.");
  const std::string type = inner.string("type", "");
  const Json* json_schema = inner.find("json_schema");
  inner.finish();
  if (!inner.ok()) return fields.fail(inner.error());
  if (type == "text") return;
  found.request.response_format = *format;
  if (type == "json_object") return found.set("response_format", Kind::kJsonObject, "");
  if (type != "json_schema") {
    fields.fail("response_format.type", "'" + type.substr(0, 40) + "', one of text, json_object, json_schema wanted");
    return;
  }
  if (json_schema == nullptr || !json_schema->is_object()) {
    fields.fail("response_format.json_schema", "an object with a schema wanted");
    return;
  }
  FieldReader schema(*json_schema, "response_format.json_schema.");
  schema.accept({"description"});
  schema.string("name", "");
  schema.boolean("strict", true);  // the schema is always kept to
  const Json* value = schema.find("schema");
  schema.finish();
  if (!schema.ok()) return fields.fail(schema.error());
  if (value == nullptr) return fields.fail("response_format.json_schema.schema", "missing");
  found.schema("response_format.json_schema.schema", value);
}

void read_structured_outputs(FieldReader& fields, Found found) {
  const Json* object = fields.find("structured_outputs");
  if (object == nullptr) return;
  if (!object->is_object()) {
    fields.fail("structured_outputs", std::string(json_type_name(*object)) + ", an object wanted");
    return;
  }
  FieldReader inner(*object, "structured_outputs.");
  found.schema("structured_outputs.json", inner.find("json"));
  found.text("structured_outputs.regex", Kind::kRegex, inner.find("regex"));
  found.choice("structured_outputs.choice", inner.find("choice"));
  found.text("structured_outputs.grammar", Kind::kGrammar, inner.find("grammar"));
  if (inner.boolean("json_object", false)) found.set("structured_outputs.json_object", Kind::kJsonObject, "");
  inner.refuse({"structural_tag", "whitespace_pattern"}, "");
  inner.finish();
  if (!inner.ok()) return fields.fail(inner.error());
  if (!found.request.constraint) fields.fail("structured_outputs", "one of json, regex, choice, grammar wanted");
}

}  // namespace

void read_constraint(FieldReader& fields, ApiRequest& request) {
  Found found{fields, request};
  read_response_format(fields, found);
  read_structured_outputs(fields, found);
  found.schema("guided_json", fields.find("guided_json"));
  found.text("guided_regex", Kind::kRegex, fields.find("guided_regex"));
  found.choice("guided_choice", fields.find("guided_choice"));
  found.text("guided_grammar", Kind::kGrammar, fields.find("guided_grammar"));
  found.text("grammar", Kind::kGrammar, fields.find("grammar"));
  fields.refuse({"guided_whitespace_pattern", "guided_decoding_backend"}, "");
}

void check_constraint(FieldReader& fields, const ApiRequest& request) {
  const bool wants_call = request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
  const std::string field = wants_call ? "tool_choice" : request.constraint_field;
  if (field.empty()) return;
  if (request.ignore_eos) fields.fail("ignore_eos", "beside " + field + ", which says what ends it");
  if (wants_call && request.continue_final_message) {
    fields.fail("continue_final_message", "beside tool_choice, which wants a call from its beginning");
  }
}

namespace {

// The constraint as a part of a structure.
Json as_part(const text::grammar::ConstraintSpec& spec) {
  static constexpr std::pair<Kind, const char*> kNames[] = {{Kind::kJsonObject, "json_object"},
                                                            {Kind::kJsonSchema, "json_schema"},
                                                            {Kind::kRegex, "regex"},
                                                            {Kind::kChoice, "choice"},
                                                            {Kind::kGrammar, "grammar"}};
  for (const auto& [kind, name] : kNames) {
    if (kind == spec.kind) return {{name, spec.text}};
  }
  return Json();
}

// The field of the i-th tool that may be called: its place among all that were sent.
std::string parameters_field(const ApiRequest& request, size_t i) {
  return "tools[" + std::to_string(request.tool_places[i]) + "].function.parameters";
}

// A fault in one tool is told with the tool's place.
ApiError tool_error(const ApiRequest& request, const Status& status) {
  ApiError error = to_api_error(status);
  error.http_status = 400;
  error.param = "tools";
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const std::string whose = "tool '" + request.tools[i]["function"]["name"].get<std::string>() + "'";
    if (error.message.find(whose) == std::string::npos) continue;
    error.param = parameters_field(request, i);
    break;
  }
  error.message = error.param + ": " + error.message;
  return error;
}

ApiError constraint_error(const ApiRequest& request, const Status& status) {
  ApiError error = to_api_error(status);
  error.http_status = 400;
  error.message = request.constraint_field + ": " + error.message;
  error.param = request.constraint_field;
  return error;
}

// A structure that nothing matches is the fault of the first tool whose arguments nothing matches, if there is one.
ApiError frame_error(text::grammar::ConstraintCompiler& compiler, const ApiRequest& request, const Status& status) {
  if (!request.tools.is_array()) return constraint_error(request, status);
  ApiError error = tool_error(request, status);
  for (size_t i = 0; i < request.tools.size() && error.param == "tools"; ++i) {
    const Json& function = request.tools[i]["function"];
    const bool is_asked = request.tool_choice != ToolChoice::kNamed || function["name"] == request.named_tool;
    const auto schema = function.find("parameters");
    if (!is_asked || schema == function.end() || !schema->is_object()) continue;
    if (const auto alone = compiler.compile({Kind::kJsonSchema, dump_json(*schema)}); !alone.ok()) {
      error.param = parameters_field(request, i);
      error.message = error.param + ": " + alone.status().message();
    }
  }
  return error;
}

}  // namespace

text::grammar::ConstraintSpec frame_text(const text::ChatFormat& format, const text::grammar::ConstraintSpec& spec,
                                         std::string_view prompt_end) {
  return {Kind::kStructure, dump_json(text::answer_structure(format, prompt_end, as_part(spec), Json()))};
}

ApiError frame_answer(const ChatProfile* profile, const ApiRequest& request, std::string_view prompt_end,
                      std::optional<text::grammar::ConstraintSpec>& frame) {
  const bool wants_call = request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
  const bool may_call = request.tools.is_array() && (wants_call || request.constraint);
  if (!wants_call && !request.constraint) return {};
  if (may_call && (profile == nullptr || !profile->format->calls)) {
    return unsupported_field(wants_call ? "tool_choice" : "tools",
                             wants_call ? "a call: how the model writes calls is not known"
                                        : "beside " + request.constraint_field +
                                              ": how the model writes calls is not known, so they would have no place");
  }
  // The answer goes on from within a text.
  if (profile == nullptr || request.continue_final_message) return {};
  const text::ChatFormat& format = *profile->format;
  const bool has_marks = !format.thinking.empty() || !format.text_begin.empty() || !format.text_end.empty();
  if (!may_call && !has_marks) return {};
  Json calls;
  if (may_call) {
    const text::ToolSet tools(request.tools);
    const bool is_named = request.tool_choice == ToolChoice::kNamed;
    const auto names = is_named ? std::vector{request.named_tool} : tools.names();
    auto structure = text::call_structure(*format.calls, tools, names, is_named || !request.parallel_tool_calls);
    if (!structure.ok()) return tool_error(request, structure.status());
    calls = std::move(*structure);
  }
  Json text = wants_call ? Json() : as_part(*request.constraint);
  const Json structure = text::answer_structure(format, prompt_end, std::move(text), std::move(calls));
  frame = {Kind::kStructure, dump_json(structure)};
  return {};
}

ApiError compile_constraints(text::grammar::ConstraintCompiler& compiler, const ApiRequest& request,
                             std::vector<PreparedPrompt>& prompts) {
  std::shared_ptr<const text::grammar::Constraint> alone;
  if (request.constraint) {
    auto compiled = compiler.compile(*request.constraint);
    if (!compiled.ok()) return constraint_error(request, compiled.status());
    alone = std::move(*compiled);
  }
  for (PreparedPrompt& prompt : prompts) {
    prompt.constraint = alone;
    if (!prompt.frame) continue;
    auto compiled = compiler.compile(*prompt.frame);
    if (!compiled.ok()) return frame_error(compiler, request, compiled.status());
    prompt.constraint = std::move(*compiled);
  }
  return {};
}

}  // namespace firstlight::server
