// SPDX-License-Identifier: Apache-2.0
#include "server/constraint_fields.h"

#include <utility>

#include "server/openai_api.h"

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
  if (!request.constraint) return;
  if (request.ignore_eos) fields.fail("ignore_eos", "beside " + request.constraint_field + ", which says what ends it");
  if (request.tools.is_array()) {
    fields.fail(unsupported_field("tools", "beside " + request.constraint_field + ", unless tool_choice is none"));
  }
}

ApiError compile_constraint(text::grammar::ConstraintCompiler& compiler, ApiRequest& request) {
  if (!request.constraint) return {};
  auto compiled = compiler.compile(*request.constraint);
  if (compiled.ok()) {
    request.compiled = std::move(*compiled);
    return {};
  }
  ApiError error = to_api_error(compiled.status());
  error.http_status = 400;
  error.message = request.constraint_field + ": " + error.message;
  error.param = request.constraint_field;
  return error;
}

}  // namespace firstlight::server
