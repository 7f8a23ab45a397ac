// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and /detokenize: what a prompt is in token ids and back, without the model. Shapes as vLLM has them.
#pragma once

#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/served_model.h"

namespace firstlight::server {

// The ids of a text ("prompt") or of a chat as the model would get it ("messages"), however many they are: `answer` is
// {"count", "max_model_len", "tokens", "token_strs"}, the last null unless return_token_strs is true.
ApiError tokenize_json(const ServedModel& model, std::string_view body, std::string& answer);

// The text of "tokens", control tokens included: {"prompt"}.
ApiError detokenize_json(const ServedModel& model, std::string_view body, std::string& answer);

// Whether a request that says `name` means this model; empty means it.
ApiError check_model(const ServedModel& model, const std::string& name);

}  // namespace firstlight::server
