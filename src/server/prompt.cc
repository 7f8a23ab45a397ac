// SPDX-License-Identifier: Apache-2.0
#include "server/prompt.h"

#include <algorithm>
#include <span>

#include "server/choice.h"
#include "server/constraint_fields.h"
#include "text/chat_renderer.h"
#include "text/detokenizer.h"

namespace firstlight::server {
namespace {

// OpenAI's default for completions; chat takes what the context leaves.
constexpr int64_t kDefaultCompletionTokens = 16;

ApiError in_field(const std::string& field, const Status& status) {
  ApiError error = to_api_error(status);
  error.message = field + ": " + error.message;
  error.param = field;
  return error;
}

std::string content_text(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_string()) return "";
  return content->get<std::string>();
}

// "developer" is a newer name of "system" that few templates know and the others drop without a word.
void rename_unknown_developer(const text::ChatRenderer& chat_template, text::ChatContext& context) {
  for (Json& message : context.messages) {
    if (message["role"] != "developer") continue;
    const auto rendered = chat_template.render(context);
    if (!rendered.ok() || rendered->text().find(content_text(message)) == std::string::npos) message["role"] = "system";
  }
}

ApiError render_chat(const ServedModel& model, const ApiRequest& request, text::RenderedPrompt& rendered) {
  const bool has_tools = request.tools.is_array();
  const text::ChatRenderer* chat_template =
      has_tools && model.tool_template != nullptr ? model.tool_template : model.chat_template;
  if (chat_template == nullptr) {
    return {400, "model '" + model.name + "' has no chat template; /v1/completions takes raw prompts", "messages", ""};
  }
  for (const auto& [name, unused] : model.special_tokens) {
    if (!request.template_variables.contains(name)) continue;
    return bad_field("chat_template_kwargs." + name, "the model's own, which a request cannot replace");
  }
  text::ChatContext context;
  context.messages = request.messages;
  context.tools = request.tools;
  context.tool_choice = request.said_tool_choice;
  context.response_format = request.response_format;
  context.add_generation_prompt = request.add_generation_prompt;
  context.variables = request.template_variables;
  if (ApiError error = apply_reasoning_effort(model.chat_profile.get(), request.reasoning_effort, context.variables);
      !error.ok()) {
    return error;
  }
  context.special_tokens = model.special_tokens;
  rename_unknown_developer(*chat_template, context);
  auto text = request.continue_final_message ? text::render_continuation(*chat_template, context)
                                             : chat_template->render(context);
  if (!text.ok()) return in_field("messages", text.status());
  if (has_tools) {
    context.tools = nullptr;
    const auto without = request.continue_final_message ? text::render_continuation(*chat_template, context)
                                                        : chat_template->render(context);
    if (without.ok() && without->text() == text->text()) {
      return unsupported_field("tools", "the model's chat template has no place for them");
    }
  }
  rendered = std::move(*text);
  return {};
}

ApiError fit_context(const std::string& field, const ServedModel& model, const ApiRequest& request,
                     PreparedPrompt& prompt) {
  if (prompt.ids.empty()) return bad_field(field, "no tokens, at least one wanted");
  const auto num_prompt = static_cast<int64_t>(prompt.ids.size());
  const std::string context = std::to_string(model.context);
  const int64_t longest = model.context - (request.max_tokens == 0 ? 0 : 1);
  if (num_prompt > longest) {
    return {400,
            field + ": the prompt has " + std::to_string(num_prompt) + " tokens, the context of " + context +
                " tokens takes a prompt of " + std::to_string(longest) + " at most",
            field, "context_length_exceeded"};
  }
  const int64_t left = model.context - num_prompt;
  if (request.max_tokens > left) {
    return {400,
            "max_tokens: " + std::to_string(request.max_tokens) + " and a prompt of " + std::to_string(num_prompt) +
                " tokens are more than the context of " + context + " tokens",
            "max_tokens", "context_length_exceeded"};
  }
  prompt.max_tokens = request.max_tokens;
  if (prompt.max_tokens < 0) {
    prompt.max_tokens = request.endpoint == Endpoint::kChat ? left : std::min(left, kDefaultCompletionTokens);
  }
  return {};
}

}  // namespace

ApiError check_ids(const std::string& field, const std::vector<int32_t>& ids, int64_t vocab_size) {
  const auto wrong = std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= vocab_size; });
  if (wrong == ids.end()) return {};
  return bad_field(field, "token id " + std::to_string(*wrong) + ", below " + std::to_string(vocab_size) + " wanted");
}

ApiError encode_chat(const ServedModel& model, const ApiRequest& request, std::vector<int32_t>& ids,
                     std::string* trusted_end) {
  text::RenderedPrompt rendered;
  if (ApiError error = render_chat(model, request, rendered); !error.ok()) return error;
  if (trusted_end != nullptr) *trusted_end = rendered.trusted_end();
  auto encoded = model.tokenizer.encode_segments(rendered.segments);
  if (!encoded.ok()) return in_field("messages", encoded.status());
  ids = std::move(*encoded);
  return {};
}

ApiError encode_text(const ServedModel& model, const ApiRequest& request, const std::string& field,
                     const std::string& text, std::vector<int32_t>& ids) {
  auto encoded = model.tokenizer.encode(text, {.add_special = request.add_special_tokens});
  if (!encoded.ok()) return in_field(field, encoded.status());
  ids = std::move(*encoded);
  return {};
}

namespace {

// The text that the tokens spell, and where in it each of them begins.
std::string spell(const text::Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special,
                  std::vector<int64_t>& offsets) {
  text::Detokenizer detokenizer(tokenizer, {.skip_special = skip_special});
  std::string text;
  int64_t num_characters = 0;
  for (const int32_t id : ids) {
    offsets.push_back(num_characters);
    const std::string piece = detokenizer.push(id);
    num_characters += count_characters(piece);
    text += piece;
  }
  return text + detokenizer.flush();
}

// A text as it was given, if that is what its tokens spell: control tokens written in it too, those that the tokenizer
// added not. If not (it was normalised), it is what they spell, so that log-probabilities have their places.
std::string echo_scored(const ServedModel& model, const ApiRequest& request, const std::string& text,
                        PreparedPrompt& prompt) {
  const auto own = model.tokenizer.encode(text, {.add_special = false});
  const auto& ids = prompt.ids;
  if (const auto at = own.ok() ? std::find_end(ids.begin(), ids.end(), own->begin(), own->end()) : ids.end();
      own.ok() && (at != ids.end() || own->empty())) {
    const auto num_before = static_cast<size_t>(at - ids.begin());
    std::vector<int64_t> offsets(num_before, 0);
    if (spell(model.tokenizer, *own, false, offsets) == text) {
      offsets.resize(prompt.ids.size(), count_characters(text));
      prompt.offsets = std::move(offsets);
      return text;
    }
  }
  return spell(model.tokenizer, prompt.ids, request.skip_special_tokens, prompt.offsets);
}

ApiError prepare_raw(const ServedModel& model, const ApiRequest& request, const std::string& field,
                     const RawPrompt& raw, PreparedPrompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&raw)) {
    prompt.ids = *ids;
    if (ApiError error = check_ids(field, prompt.ids, model.generator->vocab_size()); !error.ok()) return error;
    if (request.echo) {
      prompt.echo = spell(model.tokenizer, prompt.ids, request.skip_special_tokens, prompt.offsets);
      if (!request.logprobs) prompt.offsets.clear();
    }
  } else {
    const std::string& text = std::get<std::string>(raw);
    if (ApiError error = encode_text(model, request, field, text, prompt.ids); !error.ok()) return error;
    if (request.echo) prompt.echo = request.logprobs ? echo_scored(model, request, text, prompt) : text;
  }
  return fit_context(field, model, request, prompt);
}

ApiError prepare_chat(const ServedModel& model, const ApiRequest& request, std::vector<PreparedPrompt>& prompts) {
  PreparedPrompt prompt;
  std::string end;
  if (ApiError error = encode_chat(model, request, prompt.ids, &end); !error.ok()) return error;
  if (auto reading = make_chat_reading(model.chat_profile, request.tools, end)) {
    reading->one_call = !request.parallel_tool_calls;
    reading->show_reasoning = request.include_reasoning;
    if (request.tool_choice == ToolChoice::kNamed) reading->one_call = reading->is_named = true;
    reading->only_calls = reading->is_named || request.tool_choice == ToolChoice::kRequired;
    if (request.continue_final_message) reading->continued = content_text(request.messages.back());
    prompt.reading = std::move(reading);
  }
  if (ApiError error = frame_answer(model.chat_profile.get(), request, end, prompt.frame); !error.ok()) return error;
  prompts.push_back(std::move(prompt));
  return fit_context("messages", model, request, prompts.back());
}

}  // namespace

ApiError prepare_prompts(const ServedModel& model, const ApiRequest& request, std::vector<PreparedPrompt>& prompts) {
  const int64_t vocab_size = model.generator->vocab_size();
  if (const Status status = request::check(request.sampling, vocab_size); !status.ok()) {
    ApiError error = to_api_error(status);
    error.param = status.message().substr(0, status.message().find(' '));
    return error;
  }
  if (ApiError error = check_ids("stop_token_ids", request.stop_token_ids, vocab_size); !error.ok()) return error;
  if (request.endpoint == Endpoint::kChat) return prepare_chat(model, request, prompts);
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string field = request.prompts.size() == 1 ? "prompt" : "prompt[" + std::to_string(i) + "]";
    PreparedPrompt prompt;
    if (ApiError error = prepare_raw(model, request, field, request.prompts[i], prompt); !error.ok()) return error;
    prompts.push_back(std::move(prompt));
  }
  return {};
}

}  // namespace firstlight::server
