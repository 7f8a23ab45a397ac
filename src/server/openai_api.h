// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/chat/completions and /v1/completions to a request in our terms, before any tokenising. Every
// field is read with its type and range or refused by name; nothing is ignored in silence (README.md beside this file
// has the list). Heavy header (base/json.h): include it in .cc files only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "request/request.h"
#include "server/api_error.h"
#include "server/field_reader.h"
#include "text/grammar/constraint.h"

namespace firstlight::server {

enum class Endpoint : uint8_t { kChat, kCompletions };

enum class ToolChoice : uint8_t { kAuto, kNone, kRequired, kNamed };

// A prompt of /v1/completions: a text or ids.
using RawPrompt = std::variant<std::string, std::vector<int32_t>>;

struct ApiRequest {
  Endpoint endpoint = Endpoint::kChat;
  std::string model;  // empty: not said
  bool stream = false;
  bool include_usage = false;
  int64_t num_choices = 1;  // per prompt
  int64_t max_tokens = -1;  // -1: not said
  bool logprobs = false;    // wanted in the answer; how many likely ones: sampling.num_logprobs
  request::SamplingParams sampling;
  std::vector<std::string> stops;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  int64_t priority = 0;
  double timeout_s = 0;    // from the whole request to the end of its answer; 0: the server's
  std::string client;      // who asks, as they say
  std::string cache_salt;  // computed prompts are shared with requests of the same one alone

  // What the output has to be (of a chat: its text, behind thoughts), and the field that says it.
  std::optional<text::grammar::ConstraintSpec> constraint;
  std::string constraint_field;

  // Chat.
  Json messages = Json::array();
  Json tools;                       // an array or null: those that may be called,
  std::vector<size_t> tool_places;  // and the place of each among those that were sent
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;                  // of kNamed
  Json said_tool_choice, response_format;  // as the client says them, for prompts that tell the model; or null
  bool parallel_tool_calls = true;
  bool include_reasoning = true;
  std::string reasoning_effort;  // empty: not said
  Json template_variables = Json::object();
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the answer goes on from the last message, an assistant's

  // Completions.
  std::vector<RawPrompt> prompts;
  bool echo = false;
  bool add_special_tokens = true;
};

struct ApiLimits {
  int64_t max_choices = 128;   // of all prompts together
  int64_t max_waiting = 128;   // requests that the engine lets wait: more choices would never find a place
  double max_timeout_s = 600;  // the server's own
};

// Reads `body`; `defaults` are the sampling parameters of fields that are not there. On a fault the error names the
// field.
ApiError parse_request(Endpoint endpoint, std::string_view body, const request::SamplingParams& defaults,
                       const ApiLimits& limits, ApiRequest& request);

// The fields of such a body, without a last look for unknown ones.
void read_fields(Endpoint endpoint, FieldReader& fields, const ApiLimits& limits, ApiRequest& request);

// What other endpoints share with these: the body as a JSON object, and the fields that make a chat prompt (messages
// and what the template is told; tools: tool_fields.h).
ApiError parse_body(std::string_view body, Json& json);
void read_messages(FieldReader& fields, ApiRequest& request);
void read_template_fields(FieldReader& fields, ApiRequest& request);
// Ids in a JSON array; false after telling `fields`.
bool read_ids(FieldReader& fields, const std::string& name, const Json& list, std::vector<int32_t>& ids);

}  // namespace firstlight::server
