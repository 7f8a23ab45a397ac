// SPDX-License-Identifier: Apache-2.0
#include "server/openai_api.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "server/constraint_fields.h"
#include "server/tool_fields.h"

namespace firstlight::server {
namespace {

constexpr int64_t kMaxPriority = 1000;
constexpr size_t kMaxNameBytes = 256;
constexpr int64_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int64_t kMaxTopLogprobs = 20;
constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();
constexpr double kMaxPenalty = 100;
// Objects are searched member by member, so one with very many costs their square.
constexpr int64_t kMaxMembers = 8192;

// The most members any object of this text can have: its colons outside strings, object by object.
bool has_too_many_members(std::string_view text) {
  std::vector<int64_t> open;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
        break;
      case '{':
        open.push_back(0);
        break;
      case '}':
        if (!open.empty()) open.pop_back();
        break;
      case ':':
        if (!open.empty() && ++open.back() > kMaxMembers) return true;
        break;
      default:
        break;
    }
  }
  return false;
}

std::string at(const std::string& name, size_t i) { return name + "[" + std::to_string(i) + "]"; }

void read_stops(FieldReader& fields, ApiRequest& request) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMaxStops) {
    fields.fail("stop", std::to_string(list.size()) + " strings, at most " + std::to_string(kMaxStops) + " wanted");
    return;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = stop->is_array() ? at("stop", i) : "stop";
    if (!list[i].is_string()) {
      fields.fail(name, std::string(json_type_name(list[i])) + ", a string wanted");
      return;
    }
    request.stops.push_back(list[i].get<std::string>());
    if (request.stops.back().empty()) fields.fail(name, "an empty string");
    if (request.stops.back().size() > kMaxStopBytes) {
      fields.fail(name, "longer than " + std::to_string(kMaxStopBytes) + " bytes");
    }
  }
}

}  // namespace

bool read_ids(FieldReader& fields, const std::string& name, const Json& list, std::vector<int32_t>& ids) {
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& id = list[i];
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxId) {
      fields.fail(at(name, i), "a token id wanted");
      return false;
    }
    ids.push_back(id.get<int32_t>());
  }
  return true;
}

namespace {

void read_stop_ids(FieldReader& fields, ApiRequest& request) {
  const Json* list = fields.find("stop_token_ids");
  if (list == nullptr) return;
  if (!list->is_array()) {
    fields.fail("stop_token_ids", std::string(json_type_name(*list)) + ", an array wanted");
    return;
  }
  read_ids(fields, "stop_token_ids", *list, request.stop_token_ids);
}

void read_logit_bias(FieldReader& fields, ApiRequest& request) {
  const Json* map = fields.find("logit_bias");
  if (map == nullptr) return;
  if (!map->is_object()) {
    fields.fail("logit_bias", std::string(json_type_name(*map)) + ", an object wanted");
    return;
  }
  for (const auto& [key, bias] : map->items()) {
    int32_t id = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (fault != std::errc() || end != key.data() + key.size() || id < 0) {
      fields.fail("logit_bias", "key '" + key.substr(0, 40) + "', a token id wanted");
      return;
    }
    if (!bias.is_number() || !(bias.get<double>() >= -100 && bias.get<double>() <= 100)) {
      fields.fail("logit_bias", "value of " + key + ", a number from -100 to 100 wanted");
      return;
    }
    request.sampling.logit_bias[id] = bias.get<double>();
  }
}

void read_seed(FieldReader& fields, ApiRequest& request) {
  const Json* seed = fields.find("seed");
  if (seed == nullptr) return;
  if (seed->is_number_unsigned()) {
    request.sampling.seed = seed->get<uint64_t>();
    return;
  }
  // 3.0 is an integer too.
  const double value = seed->is_number() ? seed->get<double>() : NAN;
  const bool in_range = seed->is_number_integer() || (value > -0x1p63 && value < 0x1p64);
  if (value != std::floor(value) || !in_range) {
    const std::string found = seed->is_number() ? number_text(value) : std::string(json_type_name(*seed));
    fields.fail("seed", found + ", an integer of 64 bits wanted");
  } else if (seed->is_number_integer() || value < 0) {
    request.sampling.seed = static_cast<uint64_t>(seed->get<int64_t>());
  } else {
    request.sampling.seed = static_cast<uint64_t>(value);
  }
}

void read_sampling(FieldReader& fields, ApiRequest& request) {
  request::SamplingParams& sampling = request.sampling;
  sampling.temperature = fields.number("temperature", sampling.temperature, 0, 2);
  sampling.top_p = fields.number("top_p", sampling.top_p, 0, 1);
  if (sampling.top_p <= 0) fields.fail("top_p", "0, more than 0 wanted");
  // -1 means all in other servers, 0 here.
  sampling.top_k = std::max<int64_t>(0, fields.integer("top_k", sampling.top_k, -1, kMaxId));
  sampling.min_p = fields.number("min_p", sampling.min_p, 0, 1);
  sampling.repetition_penalty = fields.number("repetition_penalty", sampling.repetition_penalty, 0, kMaxPenalty);
  if (sampling.repetition_penalty <= 0) fields.fail("repetition_penalty", "0, more than 0 wanted");
  sampling.presence_penalty = fields.number("presence_penalty", sampling.presence_penalty, -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", sampling.frequency_penalty, -2, 2);
  read_logit_bias(fields, request);
  read_seed(fields, request);
}

void read_stream_options(FieldReader& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream", false);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) {
    fields.fail("stream_options", std::string(json_type_name(*options)) + ", an object wanted");
    return;
  }
  if (!request.stream) fields.fail("stream_options", "only with stream: true");
  FieldReader inner(*options, "stream_options.");
  request.include_usage = inner.boolean("include_usage", false);
  inner.accept({"include_obfuscation"});
  inner.finish();
  if (!inner.ok()) fields.fail(inner.error());
}

void read_common(FieldReader& fields, ApiRequest& request, const ApiLimits& limits) {
  request.model = fields.string("model", "");
  request.num_choices = fields.integer("n", 1, 1, limits.max_choices);
  read_stream_options(fields, request);
  read_sampling(fields, request);
  read_stops(fields, request);
  read_stop_ids(fields, request);
  request.ignore_eos = fields.boolean("ignore_eos", false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens", true);
  request.priority = fields.integer("priority", 0, -kMaxPriority, kMaxPriority);
  request.timeout_s = fields.number("timeout", 0, 0, limits.max_timeout_s);
  request.client = fields.string("user", "");
  request.cache_salt = fields.string("cache_salt", "");
  for (const auto& [name, value] : {std::pair("user", &request.client), std::pair("cache_salt", &request.cache_salt)}) {
    if (value->size() <= kMaxNameBytes) continue;
    fields.fail(name, std::to_string(value->size()) + " bytes, at most " + std::to_string(kMaxNameBytes) + " wanted");
  }
  fields.accept(
      {"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
  read_constraint(fields, request);
}

// Each is a request of its own to the engine, and has to find a place among those that wait.
void check_choices(FieldReader& fields, int64_t choices, const ApiLimits& limits) {
  const std::string all = std::to_string(choices) + " choices of all prompts together";
  if (choices > limits.max_choices)
    fields.fail("n", all + ", at most " + std::to_string(limits.max_choices) + " wanted");
  if (choices > limits.max_waiting) {
    fields.fail("n", all + ", but no more than " + std::to_string(limits.max_waiting) + " requests may wait here");
  }
}

void check_message(FieldReader& fields, const std::string& name, const Json& message) {
  static constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (!message.is_object()) {
    fields.fail(name, std::string(json_type_name(message)) + ", an object wanted");
    return;
  }
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    fields.fail(name + ".role", "a string wanted");
    return;
  }
  if (std::find(std::begin(kRoles), std::end(kRoles), role->get<std::string>()) == std::end(kRoles)) {
    fields.fail(name + ".role", "'" + role->get<std::string>().substr(0, 40) +
                                    "', one of system, developer, user, assistant, tool wanted");
    return;
  }
  for (const char* unsupported : {"audio", "function_call"}) {
    const auto found = message.find(unsupported);
    if (found != message.end() && !found->is_null()) fields.fail(unsupported_field(name + "." + unsupported, ""));
  }
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    if (*role == "user" || *role == "system" || *role == "developer") fields.fail(name + ".content", "missing");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) {
    fields.fail(name + ".content", std::string(json_type_name(*content)) + ", a string or an array of parts wanted");
    return;
  }
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string part_name = at(name + ".content", i);
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string()) {
      fields.fail(part_name, "an object with a type wanted");
    } else if (*type != "text") {
      fields.fail(unsupported_field(part_name + ".type",
                                    "'" + type->get<std::string>().substr(0, 40) + "'; this server takes text only"));
    } else if (!part.contains("text") || !part["text"].is_string()) {
      fields.fail(part_name + ".text", "a string wanted");
    }
    if (!fields.ok()) return;
  }
}

}  // namespace

void read_messages(FieldReader& fields, ApiRequest& request) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    fields.fail("messages", messages == nullptr ? "missing" : "an array wanted");
    return;
  }
  if (messages->empty()) fields.fail("messages", "empty, at least one message wanted");
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    check_message(fields, at("messages", i), (*messages)[i]);
  }
  request.messages = *messages;
}

void read_template_fields(FieldReader& fields, ApiRequest& request) {
  request.continue_final_message = fields.boolean("continue_final_message", false);
  request.add_generation_prompt = fields.boolean("add_generation_prompt", !request.continue_final_message);
  if (request.continue_final_message && request.add_generation_prompt) {
    fields.fail("add_generation_prompt", "true, and continue_final_message: a prompt ends in one way");
  }
  if (const Json* variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object()) fields.fail("chat_template_kwargs", "an object wanted");
    request.template_variables = *variables;
    for (const char* name : {"messages", "tools", "add_generation_prompt", "tool_choice", "response_format"}) {
      if (variables->is_object() && variables->contains(name)) {
        fields.fail("chat_template_kwargs." + std::string(name), "a field of its own says it");
      }
    }
  }
  fields.refuse({"chat_template", "documents"}, "");
}

namespace {

void read_reasoning(FieldReader& fields, ApiRequest& request) {
  static constexpr std::string_view kEfforts[] = {"", "none", "minimal", "low", "medium", "high", "xhigh", "max"};
  request.reasoning_effort = fields.string("reasoning_effort", "");
  if (std::find(std::begin(kEfforts), std::end(kEfforts), request.reasoning_effort) == std::end(kEfforts)) {
    fields.fail("reasoning_effort", "'" + request.reasoning_effort.substr(0, 40) +
                                        "', one of none, minimal, low, medium, high, xhigh, max wanted");
  }
  request.include_reasoning = fields.boolean("include_reasoning", true);
}

void read_chat(FieldReader& fields, const ApiLimits& limits, ApiRequest& request) {
  read_messages(fields, request);
  read_common(fields, request, limits);
  check_choices(fields, request.num_choices, limits);
  read_tools(fields, request);
  const int64_t old_name = fields.integer("max_tokens", -1, 1, kMaxTokens);
  request.max_tokens = fields.integer("max_completion_tokens", old_name, 1, kMaxTokens);
  request.logprobs = fields.boolean("logprobs", false);
  const int64_t top = fields.integer("top_logprobs", 0, 0, kMaxTopLogprobs);
  if (top > 0 && !request.logprobs) fields.fail("top_logprobs", "only with logprobs: true");
  request.sampling.num_logprobs = request.logprobs ? static_cast<int>(top) : -1;
  read_template_fields(fields, request);
  fields.accept_only("modalities", Json::array({"text"}), "this server answers in text only");
  fields.refuse({"audio", "prediction", "web_search_options", "functions", "function_call"}, "");
  read_reasoning(fields, request);
  fields.refuse({"verbosity"}, "where the template knows it, give it in chat_template_kwargs");
}

bool is_id_list(const Json& list) { return list.is_array() && !list.empty() && list[0].is_number(); }

void read_prompts(FieldReader& fields, ApiRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.fail("prompt", "missing");
    return;
  }
  const auto add = [&](const std::string& name, const Json& one) {
    if (one.is_string()) {
      request.prompts.emplace_back(one.get<std::string>());
    } else if (is_id_list(one)) {
      std::vector<int32_t> ids;
      if (read_ids(fields, name, one, ids)) request.prompts.emplace_back(std::move(ids));
    } else {
      fields.fail(name, "a string or an array of token ids wanted");
    }
  };
  if (prompt->is_string() || is_id_list(*prompt)) {
    add("prompt", *prompt);
  } else if (prompt->is_array() && !prompt->empty()) {
    for (size_t i = 0; i < prompt->size() && fields.ok(); ++i) add(at("prompt", i), (*prompt)[i]);
  } else {
    fields.fail("prompt", "a string, an array of token ids, or an array of either wanted");
  }
}

void read_completions(FieldReader& fields, const ApiLimits& limits, ApiRequest& request) {
  read_prompts(fields, request);
  read_common(fields, request, limits);
  request.max_tokens = fields.integer("max_tokens", -1, 0, kMaxTokens);
  const int64_t logprobs = fields.integer("logprobs", -1, 0, kMaxTopLogprobs);
  request.logprobs = logprobs >= 0;
  request.sampling.num_logprobs = static_cast<int>(logprobs);
  request.echo = fields.boolean("echo", false);
  request.add_special_tokens = fields.boolean("add_special_tokens", true);
  const int64_t best_of = fields.integer("best_of", request.num_choices, 1, limits.max_choices);
  if (best_of != request.num_choices) fields.fail(unsupported_field("best_of", "other than n"));
  fields.accept_only("suffix", "", "");
  check_choices(fields, static_cast<int64_t>(request.prompts.size()) * request.num_choices, limits);
}

}  // namespace

void read_fields(Endpoint endpoint, FieldReader& fields, const ApiLimits& limits, ApiRequest& request) {
  request.endpoint = endpoint;
  if (endpoint == Endpoint::kChat) {
    read_chat(fields, limits, request);
  } else {
    read_completions(fields, limits, request);
  }
}

ApiError parse_body(std::string_view body, Json& json) {
  if (has_too_many_members(body)) {
    return {400, "the body has an object of more than " + std::to_string(kMaxMembers) + " members", "", ""};
  }
  auto parsed = parse_json(body);
  if (!parsed.ok()) return {400, "the body is not JSON: " + parsed.status().message(), "", ""};
  if (!parsed->is_object()) {
    return {400, "the body is " + std::string(json_type_name(*parsed)) + ", an object wanted", "", ""};
  }
  json = std::move(*parsed);
  return {};
}

ApiError parse_request(Endpoint endpoint, std::string_view body, const request::SamplingParams& defaults,
                       const ApiLimits& limits, ApiRequest& request) {
  Json json;
  if (ApiError error = parse_body(body, json); !error.ok()) return error;
  request.sampling = defaults;
  FieldReader fields(json);
  read_fields(endpoint, fields, limits, request);
  check_constraint(fields, request);
  fields.finish();
  return fields.error();
}

}  // namespace firstlight::server
