// SPDX-License-Identifier: Apache-2.0
#include "server/tokenize.h"

#include "server/openai_api.h"
#include "server/prompt.h"
#include "server/tool_fields.h"

namespace firstlight::server {
void read_tokenize(FieldReader& fields, ApiRequest& request, bool& with_strings) {
  request.model = fields.string("model", "");
  const std::string text = fields.string("prompt", "");
  const bool is_chat = fields.find("messages") != nullptr;
  if (is_chat == (fields.find("prompt") != nullptr)) fields.fail("prompt", "either prompt or messages wanted");
  request.endpoint = is_chat ? Endpoint::kChat : Endpoint::kCompletions;
  if (is_chat) {
    read_messages(fields, request);
    read_tools(fields, request);
    read_template_fields(fields, request);
    fields.accept_only("add_special_tokens", false, "a chat has those of its template");
  } else {
    request.prompts.emplace_back(text);
    request.add_special_tokens = fields.boolean("add_special_tokens", true);
  }
  with_strings = fields.boolean("return_token_strs", false);
}

void read_detokenize(FieldReader& fields, std::string& model, std::vector<int32_t>& ids) {
  model = fields.string("model", "");
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    fields.fail("tokens", tokens == nullptr ? "missing" : "an array of token ids wanted");
  } else {
    read_ids(fields, "tokens", *tokens, ids);
  }
}

ApiError check_model(const ServedModel& model, const std::string& name) {
  if (name.empty() || name == model.name) return {};
  return {404, "model '" + name.substr(0, 100) + "' is not served, only '" + model.name + "'", "model",
          "model_not_found"};
}

ApiError tokenize_json(const ServedModel& model, std::string_view body, std::string& answer) {
  Json json;
  if (ApiError error = parse_body(body, json); !error.ok()) return error;
  FieldReader fields(json);
  ApiRequest request;
  bool with_strings = false;
  read_tokenize(fields, request, with_strings);
  fields.finish();
  if (!fields.ok()) return fields.error();
  if (ApiError error = check_model(model, request.model); !error.ok()) return error;
  std::vector<int32_t> ids;
  const ApiError error = request.endpoint == Endpoint::kChat
                             ? encode_chat(model, request, ids)
                             : encode_text(model, request, "prompt", std::get<std::string>(request.prompts[0]), ids);
  if (!error.ok()) return error;
  Json strings = with_strings ? Json::array() : Json();
  for (size_t i = 0; with_strings && i < ids.size(); ++i) strings.push_back(model.tokenizer.token_text(ids[i]));
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
  std::string name;
  std::vector<int32_t> ids;
  read_detokenize(fields, name, ids);
  for (size_t i = 0; i < ids.size() && fields.ok(); ++i) {
    if (!model.tokenizer.is_token(ids[i])) fields.fail("tokens", "token id " + std::to_string(ids[i]) + " is none");
  }
  fields.finish();
  if (!fields.ok()) return fields.error();
  if (ApiError error = check_model(model, name); !error.ok()) return error;
  answer = dump_json({{"prompt", model.tokenizer.decode(ids, {.skip_special = false})}});
  return {};
}

}  // namespace firstlight::server
