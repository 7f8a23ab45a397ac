// SPDX-License-Identifier: Apache-2.0
#include "server/tokenize.h"

#include "server/openai_api.h"
#include "server/prompt.h"

namespace firstlight::server {
namespace {

struct TokenizeRequest {
  ApiRequest prompt;
  bool with_strings = false;
};

ApiError parse_tokenize(const Json& body, TokenizeRequest& request) {
  FieldReader fields(body);
  ApiRequest& prompt = request.prompt;
  prompt.model = fields.string("model", "");
  const std::string text = fields.string("prompt", "");
  const bool is_chat = fields.find("messages") != nullptr;
  if (is_chat == (fields.find("prompt") != nullptr)) fields.fail("prompt", "either prompt or messages wanted");
  prompt.endpoint = is_chat ? Endpoint::kChat : Endpoint::kCompletions;
  if (is_chat) {
    read_messages(fields, prompt);
    read_tools(fields, prompt);
    read_template_fields(fields, prompt);
    fields.accept_only("add_special_tokens", false, "a chat has those of its template");
  } else {
    prompt.prompts.emplace_back(text);
    prompt.add_special_tokens = fields.boolean("add_special_tokens", true);
  }
  request.with_strings = fields.boolean("return_token_strs", false);
  fields.finish();
  return fields.error();
}

}  // namespace

ApiError check_model(const ServedModel& model, const std::string& name) {
  if (name.empty() || name == model.name) return {};
  return {404, "model '" + name.substr(0, 100) + "' is not served, only '" + model.name + "'", "model",
          "model_not_found"};
}

ApiError tokenize_json(const ServedModel& model, std::string_view body, std::string& answer) {
  Json json;
  TokenizeRequest request;
  std::vector<int32_t> ids;
  ApiError error = parse_body(body, json);
  if (error.ok()) error = parse_tokenize(json, request);
  if (error.ok()) error = check_model(model, request.prompt.model);
  if (error.ok()) {
    error = request.prompt.endpoint == Endpoint::kChat
                ? encode_chat(model, request.prompt, ids)
                : encode_text(model, request.prompt, "prompt", std::get<std::string>(request.prompt.prompts[0]), ids);
  }
  if (!error.ok()) return error;
  Json strings;
  for (size_t i = 0; request.with_strings && i < ids.size(); ++i) strings.push_back(model.tokenizer.token_text(ids[i]));
  if (request.with_strings && ids.empty()) strings = Json::array();
  answer = dump_json({{"count", ids.size()},
                      {"max_model_len", model.context},
                      {"tokens", std::move(ids)},
                      {"token_strs", std::move(strings)}});
  return {};
}

ApiError detokenize_json(const ServedModel& model, std::string_view body, std::string& answer) {
  Json json;
  if (ApiError error = parse_body(body, json); !error.ok()) return error;
  FieldReader fields(json);
  const std::string name = fields.string("model", "");
  const Json* tokens = fields.find("tokens");
  std::vector<int32_t> ids;
  if (tokens == nullptr || !tokens->is_array()) {
    fields.fail("tokens", tokens == nullptr ? "missing" : "an array of token ids wanted");
  } else if (read_ids(fields, "tokens", *tokens, ids)) {
    for (size_t i = 0; i < ids.size() && fields.ok(); ++i) {
      if (!model.tokenizer.is_token(ids[i])) fields.fail("tokens", "token id " + std::to_string(ids[i]) + " is none");
    }
  }
  fields.finish();
  if (!fields.ok()) return fields.error();
  if (ApiError error = check_model(model, name); !error.ok()) return error;
  answer = dump_json({{"prompt", model.tokenizer.decode(ids, {.skip_special = false})}});
  return {};
}

}  // namespace firstlight::server
