// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <algorithm>
#include <ctime>

#include "text/chat_messages.h"
#include "text/jinja/checker.h"
#include "text/jinja/json_value.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/renderer.h"

namespace firstlight::text {
namespace {

std::tm broken_down(std::optional<int64_t> now_unix_s) {
  std::tm out{};
  if (now_unix_s.has_value()) {
    const std::time_t at = *now_unix_s;
    gmtime_r(&at, &out);
  } else {
    const std::time_t at = std::time(nullptr);
    localtime_r(&at, &out);
  }
  return out;
}

Result<std::shared_ptr<const jinja::Tree>> build(std::string_view source) {
  auto tree = std::make_shared<jinja::Tree>(FL_TRY(jinja::parse(FL_TRY(jinja::tokenize(source)))));
  FL_TRY(jinja::check(*tree));
  return std::shared_ptr<const jinja::Tree>(std::move(tree));
}

Result<RenderedPrompt> run(const jinja::Tree& tree, jinja::RenderInput input, std::optional<int64_t> now_unix_s) {
  input.now = broken_down(now_unix_s);
  RenderedPrompt out;
  out.segments = FL_TRY(jinja::render(tree, input)).segments();
  return out;
}

void add_special_tokens(jinja::RenderInput& input, const std::vector<std::pair<std::string, std::string>>& tokens) {
  for (const auto& [name, text] : tokens) input.variables.emplace_back(name, jinja::Value::string(text, true));
}

Status add_members(jinja::RenderInput& input, const Json& object) {
  for (const auto& [name, value] : object.items()) {
    input.variables.emplace_back(name, FL_TRY(jinja::from_json(value, {.trust_roles = name == "messages"})));
  }
  return ok_status();
}

}  // namespace

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, std::string name) {
  ChatTemplate out;
  out.tree_ = FL_TRY(build(source).with_context("chat template '" + name + "'"));
  out.name_ = std::move(name);
  out.probe();
  return out;
}

Result<RenderedPrompt> ChatTemplate::render_plain(
    const Json& variables, const std::vector<std::pair<std::string, std::string>>& special_tokens,
    std::optional<int64_t> now_unix_s) const {
  jinja::RenderInput input;
  add_special_tokens(input, special_tokens);
  FL_TRY(add_members(input, variables));
  Result<RenderedPrompt> out = run(*tree_, std::move(input), now_unix_s);
  if (!out.ok() && out.code() != StatusCode::kInvalidArgument)
    return std::move(out).with_context("chat template '" + name_ + "'");
  return out;
}

Result<RenderedPrompt> ChatTemplate::render(const ChatContext& context) const {
  Json variables = Json::object();
  variables["documents"] = nullptr;
  if (context.variables.is_object()) {
    for (const auto& [name, value] : context.variables.items()) variables[name] = value;
  } else if (!context.variables.is_null()) {
    return invalid_argument("template variables must be an object");
  }
  // A request may not replace what the engine says.
  for (const auto& [name, text] : context.special_tokens) variables.erase(name);
  const bool has_tools = context.tools.is_array() && !context.tools.empty();
  if (!context.tools.is_null() && !context.tools.is_array()) return invalid_argument("tools must be an array");
  variables["messages"] = FL_TRY(normalize(context.messages));
  variables["tools"] = has_tools ? context.tools : Json();
  variables["add_generation_prompt"] = context.add_generation_prompt;
  return render_plain(variables, context.special_tokens, context.now_unix_s);
}

namespace {

Json user_message(Json content) { return Json{{"role", "user"}, {"content", std::move(content)}}; }

Json call_message(Json content, Json arguments) {
  const Json function = {{"name", "fl_function"}, {"arguments", std::move(arguments)}};
  return Json{{"role", "assistant"},
              {"content", std::move(content)},
              {"tool_calls", Json::array({Json{{"id", "call00001"}, {"type", "function"}, {"function", function}}})}};
}

Json parts(const char* text) { return Json::array({Json{{"type", "text"}, {"text", text}}}); }

}  // namespace

bool ChatTemplate::renders(const Json& messages, std::string_view wanted, std::string_view unwanted) const {
  Json variables = {
      {"messages", messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
  const Result<RenderedPrompt> out = render_plain(variables, {{"bos_token", ""}, {"eos_token", ""}}, 0);
  if (!out.ok()) return false;
  const std::string text = out->text();
  return text.find(wanted) != std::string::npos && (unwanted.empty() || text.find(unwanted) == std::string::npos);
}

void ChatTemplate::probe() {
  const Json question = user_message("fl_question");
  abilities_.part_content = renders(Json::array({user_message(parts("fl_part"))}), "fl_part", "type");
  abilities_.text_content = renders(Json::array({question}), "fl_question", "") || !abilities_.part_content;
  const Json ask = abilities_.text_content ? question : user_message(parts("fl_question"));
  const Json arguments = {{"fl_key", "fl_value"}};
  const auto calls = [&](Json content, Json given, std::string_view wanted, std::string_view unwanted) {
    return renders(Json::array({ask, call_message(std::move(content), std::move(given))}), wanted, unwanted);
  };
  const std::string dumped = dump_json(arguments);
  const bool by_object = calls("", arguments, "fl_function", "") || calls(nullptr, arguments, "fl_function", "");
  // An object that comes out with Python's quotes was pasted by a template that wants a string.
  const bool as_repr =
      by_object && (calls("", arguments, "{'fl_key'", "") || calls(nullptr, arguments, "{'fl_key'", ""));
  const bool by_string = calls("", dumped, "fl_function", "") || calls(nullptr, dumped, "fl_function", "");
  abilities_.string_arguments = by_string && (!by_object || as_repr);
  const Json given = abilities_.string_arguments ? Json(dumped) : arguments;
  abilities_.needs_null_content = !calls("", given, "fl_function", "") && calls(nullptr, given, "fl_function", "");
  const Json call = call_message(abilities_.needs_null_content ? Json() : Json(""), given);
  const Json result = {
      {"role", "tool"}, {"tool_call_id", "call00001"}, {"name", "fl_function"}, {"content", parts("fl_result")}};
  abilities_.part_tool_content = renders(Json::array({ask, call, result}), "fl_result", "'type'") &&
                                 !renders(Json::array({ask, call, result}), "\"type\"", "");
}

Result<Json> ChatTemplate::normalize(const Json& messages) const {
  return normalize_messages(messages, {.text_content = abilities_.text_content,
                                       .part_content = abilities_.part_content,
                                       .part_tool_content = abilities_.part_tool_content,
                                       .null_content_for_calls = abilities_.needs_null_content,
                                       .string_arguments = abilities_.string_arguments});
}

Result<std::vector<ChatTemplateSource>> read_chat_templates(const Json& tokenizer_config, std::string_view jinja_file) {
  std::vector<ChatTemplateSource> out;
  const auto found = tokenizer_config.is_object() ? tokenizer_config.find("chat_template") : tokenizer_config.end();
  const bool has_field = tokenizer_config.is_object() && found != tokenizer_config.end() && !found->is_null();
  if (has_field && found->is_string()) {
    out.push_back({"default", found->get<std::string>()});
  } else if (has_field && found->is_array()) {
    for (const Json& entry : *found) {
      const bool good = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                        entry.contains("template") && entry["template"].is_string();
      if (!good) return invalid_data("chat_template: an entry is not {name, template}");
      out.push_back({entry["name"].get<std::string>(), entry["template"].get<std::string>()});
    }
  } else if (has_field) {
    return invalid_data("chat_template: a string or a list of {name, template} is wanted, not " +
                        std::string(found->type_name()));
  }
  if (!jinja_file.empty()) {
    std::erase_if(out, [](const ChatTemplateSource& source) { return source.name == "default"; });
    out.insert(out.begin(), {"default", std::string(jinja_file)});
  }
  if (out.empty()) return not_found("the model has no chat template");
  return out;
}

Result<ChatTemplateSource> select_chat_template(const std::vector<ChatTemplateSource>& sources, bool has_tools) {
  const auto by_name = [&](std::string_view name) -> const ChatTemplateSource* {
    const auto it =
        std::find_if(sources.begin(), sources.end(), [&](const ChatTemplateSource& s) { return s.name == name; });
    return it == sources.end() ? nullptr : &*it;
  };
  if (has_tools) {
    if (const ChatTemplateSource* source = by_name("tool_use")) return *source;
  }
  if (const ChatTemplateSource* source = by_name("default")) return *source;
  if (sources.size() == 1) return sources.front();
  std::string names;
  for (const ChatTemplateSource& source : sources) names += (names.empty() ? "" : ", ") + source.name;
  return not_found("no chat template named 'default' among: " + names);
}

Result<RenderedPrompt> render_template(std::string_view template_text, std::string_view context_json,
                                       std::optional<int64_t> now_unix_s) {
  const Json context = FL_TRY(parse_json(context_json).with_context("context"));
  if (!context.is_object()) return invalid_argument("context: an object is wanted");
  const std::shared_ptr<const jinja::Tree> tree = FL_TRY(build(template_text).with_context("template"));
  jinja::RenderInput input;
  FL_TRY(add_members(input, context));
  // Where nobody can name the special tokens, their usual names are trusted.
  for (auto& [name, value] : input.variables) {
    if (name.ends_with("_token") && value.is_string()) value = jinja::Value::string(value.as_text().bytes(), true);
  }
  return run(*tree, std::move(input), now_unix_s);
}

}  // namespace firstlight::text
