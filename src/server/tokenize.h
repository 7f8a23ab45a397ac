// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and /detokenize: what a prompt is in token ids and back, without the model. Shapes as vLLM has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/served_model.h"

namespace firstlight::server {

struct ApiRequest;

// The ids of a text ("prompt") or of a chat as the model would get it ("messages"), however many they are: `answer` is
// {"count", "max_model_len", "tokens", "token_strs"}, the last null unless return_token_strs is true.
ApiError tokenize_json(const ServedModel& model, std::string_view body, std::string& answer);

// The text of "tokens", control tokens included: {"prompt"}.
ApiError detokenize_json(const ServedModel& model, std::string_view body, std::string& answer);

// Their fields, without a last look for unknown ones.
void read_tokenize(FieldReader& fields, ApiRequest& request, bool& with_strings);
void read_detokenize(FieldReader& fields, std::string& model, std::vector<int32_t>& ids);

// Whether a request that says `name` means this model; empty means it.
ApiError check_model(const ServedModel& model, const std::string& name);

}  // namespace firstlight::server
