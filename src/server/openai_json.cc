// SPDX-License-Identifier: Apache-2.0
#include "server/openai_json.h"

#include <random>

#include "base/json.h"

namespace firstlight::server {
namespace {

Json bytes_json(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

// `token` is the bytes as text; dump_json writes U+FFFD for what is a part of a character only.
Json chat_token_json(const LogprobEntry::Alternative& one) {
  return {{"token", one.bytes}, {"bytes", bytes_json(one.bytes)}, {"logprob", one.logprob}};
}

Json chat_logprobs_json(const std::vector<LogprobEntry>& entries) {
  Json content = Json::array();
  for (const LogprobEntry& entry : entries) {
    Json item = chat_token_json(entry.chosen);
    item["top_logprobs"] = Json::array();
    for (const auto& other : entry.top) item["top_logprobs"].push_back(chat_token_json(other));
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completions_logprobs_json(const std::vector<LogprobEntry>& entries) {
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();
  for (const LogprobEntry& entry : entries) {
    tokens.push_back(entry.chosen.bytes);
    logprobs.push_back(entry.chosen.logprob);
    Json likely = Json::object();
    for (const auto& other : entry.top) likely.emplace(other.bytes, other.logprob);
    likely.emplace(entry.chosen.bytes, entry.chosen.logprob);
    top.push_back(std::move(likely));
    offsets.push_back(entry.text_offset);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

Json logprobs_json(const AnswerHead& head, const std::vector<LogprobEntry>& entries) {
  if (!head.logprobs) return nullptr;
  return head.chat ? chat_logprobs_json(entries) : completions_logprobs_json(entries);
}

Json finish_json(request::FinishReason finish) {
  if (finish == request::FinishReason::kNone) return nullptr;
  return request::finish_reason_name(finish);
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

// Nothing is said of nothing: clients that know no eviction meet no new field.
void tell_evicted(Json& choice, int64_t evicted_tokens) {
  if (evicted_tokens > 0) choice["evicted_tokens"] = evicted_tokens;
}

Json frame(const AnswerHead& head, std::string_view object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created_unix_s}, {"model", head.model}};
}

std::string chunk(const AnswerHead& head, Json choices) {
  Json json = frame(head, head.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = std::move(choices);
  if (head.include_usage) json["usage"] = nullptr;
  return dump_json(json);
}

Json chat_choice(const AnswerHead& head, int64_t choice, Json delta, const std::vector<LogprobEntry>& entries,
                 request::FinishReason finish) {
  Json logprobs = entries.empty() ? Json(nullptr) : logprobs_json(head, entries);
  return {{"index", choice},
          {"delta", std::move(delta)},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", finish_json(finish)}};
}

}  // namespace

std::string make_answer_id(bool chat) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id = chat ? "chatcmpl-" : "cmpl-";
  for (int i = 0; i < 4; ++i) {
    unsigned bits = random();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

std::string whole_json(const AnswerHead& head, std::span<const WholeChoice> choices, const Usage& usage) {
  Json list = Json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    Json choice = {{"index", i}};
    if (head.chat) {
      choice["message"] = {{"role", "assistant"}, {"content", choices[i].text}, {"refusal", nullptr}};
    } else {
      choice["text"] = choices[i].text;
    }
    choice["logprobs"] = logprobs_json(head, choices[i].logprobs);
    choice["finish_reason"] = finish_json(choices[i].finish);
    tell_evicted(choice, choices[i].evicted_tokens);
    list.push_back(std::move(choice));
  }
  Json json = frame(head, head.chat ? "chat.completion" : "text_completion");
  json["choices"] = std::move(list);
  json["usage"] = usage_json(usage);
  return dump_json(json);
}

std::string role_chunk_json(const AnswerHead& head, int64_t choice) {
  return chunk(head, Json::array({chat_choice(head, choice, {{"role", "assistant"}, {"content", ""}}, {},
                                              request::FinishReason::kNone)}));
}

std::string piece_chunk_json(const AnswerHead& head, int64_t choice, const ChoicePiece& piece, int64_t evicted_tokens) {
  if (head.chat) {
    return chunk(head, Json::array({chat_choice(head, choice, {{"content", piece.text}}, piece.logprobs,
                                                request::FinishReason::kNone)}));
  }
  Json one = {{"index", choice},
              {"text", piece.text},
              {"logprobs", logprobs_json(head, piece.logprobs)},
              {"finish_reason", finish_json(piece.finish)}};
  if (piece.finish != request::FinishReason::kNone) tell_evicted(one, evicted_tokens);
  return chunk(head, Json::array({std::move(one)}));
}

std::string finish_chunk_json(const AnswerHead& head, int64_t choice, request::FinishReason finish,
                              int64_t evicted_tokens) {
  Json one = chat_choice(head, choice, Json::object(), {}, finish);
  tell_evicted(one, evicted_tokens);
  return chunk(head, Json::array({std::move(one)}));
}

std::string usage_chunk_json(const AnswerHead& head, const Usage& usage) {
  Json json = frame(head, head.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return dump_json(json);
}

std::string sse_event(std::string_view data) {
  std::string event = "data: ";
  event += data;
  return event + "\n\n";
}

}  // namespace firstlight::server
