// SPDX-License-Identifier: Apache-2.0
#include "text/chat_messages.h"

#include "base/json.h"

namespace firstlight::text {
namespace {

// The text parts of a list joined by line breaks.
Result<std::string> join_parts(const Json& parts) {
  std::string out;
  bool first = true;
  for (const Json& part : parts) {
    if (part.is_string()) {
      out += (first ? "" : "\n") + part.get<std::string>();
    } else {
      if (!part.is_object()) return invalid_argument("a content part is neither text nor an object");
      const std::string type =
          part.contains("type") && part["type"].is_string() ? part["type"].get<std::string>() : "text";
      if (!part.contains("text") || !part["text"].is_string()) {
        return unsupported("content part of type '" + type + "': the chat template takes text only");
      }
      out += (first ? "" : "\n") + part["text"].get<std::string>();
    }
    first = false;
  }
  return out;
}

bool is_empty(const Json& content) {
  return content.is_null() || (content.is_string() && content.get_ref<const std::string&>().empty()) ||
         (content.is_array() && content.empty());
}

Result<Json> normalize_content(const Json& content, bool is_tool_result, bool has_calls, const MessageForm& form) {
  if (is_empty(content)) {
    if (has_calls && form.null_content_for_calls) return Json();
    return form.text_content ? Json("") : Json::array();
  }
  if (content.is_string()) {
    if (form.text_content || is_tool_result) return content;
    return Json::array({Json{{"type", "text"}, {"text", content}}});
  }
  if (!content.is_array()) return invalid_argument("content must be a string, a list of parts or null");
  if (is_tool_result ? form.part_tool_content : form.part_content) return content;
  return Json(FL_TRY(join_parts(content)));
}

Result<Json> normalize_arguments(const Json& arguments, bool as_string) {
  Json value = arguments;
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text.empty()) {
      value = Json::object();
    } else {
      Result<Json> parsed = parse_json(text);
      if (!parsed.ok()) return invalid_argument("tool call arguments: " + parsed.status().message());
      value = *std::move(parsed);
    }
  }
  if (value.is_null()) value = Json::object();
  if (!value.is_object()) return invalid_argument("tool call arguments must be a JSON object");
  if (!as_string) return value;
  // A text that the client sent stays byte for byte.
  return arguments.is_string() && !arguments.get_ref<const std::string&>().empty() ? arguments : Json(dump_json(value));
}

Result<Json> normalize_calls(const Json& calls, const MessageForm& form) {
  if (!calls.is_array()) return invalid_argument("tool_calls must be an array");
  Json out = Json::array();
  for (const Json& call : calls) {
    if (!call.is_object()) return invalid_argument("a tool call is not an object");
    Json copy = call;
    const bool nested = copy.contains("function") && copy["function"].is_object();
    Json& function = nested ? copy["function"] : copy;
    const Json arguments = function.contains("arguments") ? function["arguments"] : Json();
    function["arguments"] = FL_TRY(normalize_arguments(arguments, form.string_arguments));
    out.push_back(std::move(copy));
  }
  return out;
}

// Thoughts go by several names; templates read the first or, for some, "thinking".
void alias_reasoning(Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!message.contains(name)) continue;
    const Json reasoning = message[name];
    message["reasoning_content"] = reasoning;
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    return;
  }
}

Result<Json> normalize_message(const Json& message, const MessageForm& form) {
  if (!message.is_object()) return invalid_argument("not an object");
  if (!message.contains("role") || !message["role"].is_string()) return invalid_argument("'role' must be a string");
  Json out = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) out[key] = value;
  }
  if (out.contains("tool_calls") && out["tool_calls"].is_array() && out["tool_calls"].empty()) out.erase("tool_calls");
  const bool has_calls = out.contains("tool_calls");
  if (has_calls) out["tool_calls"] = FL_TRY(normalize_calls(out["tool_calls"], form));
  const std::string role = out["role"].get<std::string>();
  const Json content = out.contains("content") ? out["content"] : Json();
  out["content"] = FL_TRY(normalize_content(content, role == "tool" || role == "function", has_calls, form));
  alias_reasoning(out);
  return out;
}

}  // namespace

Result<Json> normalize_messages(const Json& messages, const MessageForm& form) {
  if (!messages.is_array()) return invalid_argument("messages must be an array");
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    out.push_back(FL_TRY(normalize_message(messages[i], form).with_context("messages[" + std::to_string(i) + "]")));
  }
  return out;
}

}  // namespace firstlight::text
