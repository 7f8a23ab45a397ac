// SPDX-License-Identifier: Apache-2.0
#include "server/openai_json.h"

#include <random>
#include <utility>

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
    offsets.push_back(entry.text_offset);
    if (!entry.is_scored) {
      logprobs.push_back(nullptr);
      top.push_back(nullptr);
      continue;
    }
    logprobs.push_back(entry.chosen.logprob);
    Json likely = Json::object();
    for (const auto& other : entry.top) likely.emplace(other.bytes, other.logprob);
    likely.emplace(entry.chosen.bytes, entry.chosen.logprob);
    top.push_back(std::move(likely));
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

Json finish_json(std::string_view name) { return name.empty() ? Json(nullptr) : Json(name); }

Json call_json(const CallPiece& call) {
  Json function = Json::object();
  if (!call.name.empty()) function["name"] = call.name;
  function["arguments"] = call.arguments;
  Json json = Json::object();
  if (!call.id.empty()) json = {{"id", call.id}, {"type", "function"}};
  json["function"] = std::move(function);
  return json;
}

Json message_json(const WholeChoice& choice) {
  Json message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (choice.calls.empty()) return message;
  if (choice.text.empty()) message["content"] = nullptr;
  message["tool_calls"] = Json::array();
  for (const CallPiece& call : choice.calls) message["tool_calls"].push_back(call_json(call));
  return message;
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"accepted_prediction_tokens", usage.accepted_tokens},
            {"rejected_prediction_tokens", usage.drafted_tokens - usage.accepted_tokens}}}};
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
                 std::string_view finish) {
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
      choice["message"] = message_json(choices[i]);
    } else {
      choice["text"] = choices[i].text;
    }
    choice["logprobs"] = logprobs_json(head, choices[i].logprobs);
    choice["finish_reason"] = finish_json(finish_name(choices[i].finish, choices[i].has_calls));
    tell_evicted(choice, choices[i].evicted_tokens);
    list.push_back(std::move(choice));
  }
  Json json = frame(head, head.chat ? "chat.completion" : "text_completion");
  json["choices"] = std::move(list);
  json["usage"] = usage_json(usage);
  return dump_json(json);
}

void append(WholeChoice& whole, ChoicePiece piece) {
  whole.text += piece.text;
  whole.reasoning += piece.reasoning;
  for (CallPiece& call : piece.calls) {
    if (static_cast<size_t>(call.index) == whole.calls.size()) {
      whole.calls.push_back(std::move(call));
    } else {
      whole.calls.back().arguments += call.arguments;
    }
  }
  whole.finish = piece.finish;
  whole.has_calls = piece.has_calls;
  for (auto& entry : piece.logprobs) whole.logprobs.push_back(std::move(entry));
}

std::string_view finish_name(request::FinishReason finish, bool has_calls) {
  return finish == request::FinishReason::kStop && has_calls ? "tool_calls" : request::finish_reason_name(finish);
}

std::string role_chunk_json(const AnswerHead& head, int64_t choice) {
  return chunk(head, Json::array({chat_choice(head, choice, {{"role", "assistant"}, {"content", ""}}, {}, "")}));
}

std::string piece_chunk_json(const AnswerHead& head, int64_t choice, const ChoicePiece& piece, int64_t evicted_tokens) {
  if (head.chat) {
    Json delta = Json::object();
    if (!piece.text.empty() || piece.reasoning.empty()) delta["content"] = piece.text;
    if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
    return chunk(head, Json::array({chat_choice(head, choice, std::move(delta), piece.logprobs, "")}));
  }
  Json one = {{"index", choice},
              {"text", piece.text},
              {"logprobs", logprobs_json(head, piece.logprobs)},
              {"finish_reason", finish_json(finish_name(piece.finish, false))}};
  if (piece.finish != request::FinishReason::kNone) tell_evicted(one, evicted_tokens);
  return chunk(head, Json::array({std::move(one)}));
}

std::string chat_piece_events(const AnswerHead& head, int64_t choice, const ChoicePiece& piece) {
  std::string events;
  const bool has_text = !piece.text.empty() || !piece.reasoning.empty();
  if (has_text || (!piece.logprobs.empty() && piece.calls.empty())) {
    events += sse_event(piece_chunk_json(head, choice, piece));
  }
  bool logprobs_told = has_text;
  for (const CallPiece& call : piece.calls) {
    Json json = {{"index", call.index}};
    json.update(call_json(call));
    static const std::vector<LogprobEntry> kNone;
    Json one = chat_choice(head, choice, {{"tool_calls", Json::array({std::move(json)})}},
                           std::exchange(logprobs_told, true) ? kNone : piece.logprobs, "");
    events += sse_event(chunk(head, Json::array({std::move(one)})));
  }
  return events;
}

std::string finish_chunk_json(const AnswerHead& head, int64_t choice, std::string_view finish, int64_t evicted_tokens) {
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
