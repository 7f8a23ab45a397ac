// SPDX-License-Identifier: Apache-2.0
// The fields that constrain the output: response_format, structured_outputs, the guided_… names, grammar. One of them
// at a time; what they say, and the calls that tool_choice asks for, is compiled on the work queue, and a fault there
// is a 400 that names the field.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/field_reader.h"
#include "text/chat/chat_format.h"
#include "text/grammar/constraint.h"

namespace firstlight::server {

struct ApiRequest;      // server/openai_api.h
struct ChatProfile;     // server/chat_reading.h
struct PreparedPrompt;  // server/prompt.h

// Fills request.constraint and its field.
void read_constraint(FieldReader& fields, ApiRequest& request);

// What cannot go together with a constraint; after all fields were read.
void check_constraint(FieldReader& fields, const ApiRequest& request);

// The constraint as one of a chat's text, with the marks around it and thoughts in front.
text::grammar::ConstraintSpec frame_text(const text::ChatFormat& format, const text::grammar::ConstraintSpec& spec,
                                         std::string_view prompt_end);

// What a chat's answer is held to as a whole, marks, thoughts and calls included: calls where tool_choice wants them,
// else what the constraint says, or (with tools) calls. Nothing where the request holds it to nothing, or to the
// constraint alone. `prompt_end`: the end of the prompt, as far as it is the template's own. `profile` may be null.
ApiError frame_answer(const ChatProfile* profile, const ApiRequest& request, std::string_view prompt_end,
                      std::optional<text::grammar::ConstraintSpec>& frame);

// Compiles what each prompt's answer is held to.
ApiError compile_constraints(text::grammar::ConstraintCompiler& compiler, const ApiRequest& request,
                             std::vector<PreparedPrompt>& prompts);

}  // namespace firstlight::server
