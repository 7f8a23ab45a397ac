// SPDX-License-Identifier: Apache-2.0
// The fields that constrain the output: response_format, structured_outputs, the guided_… names, grammar. One of them
// at a time; what they say is compiled on the work queue, and a fault there is a 400 that names the field.
#pragma once

#include "server/api_error.h"
#include "server/field_reader.h"
#include "text/grammar/constraint.h"

namespace firstlight::server {

struct ApiRequest;  // server/openai_api.h

// Fills request.constraint and its field.
void read_constraint(FieldReader& fields, ApiRequest& request);

// What cannot go together with a constraint; after all fields were read.
void check_constraint(FieldReader& fields, const ApiRequest& request);

// Fills request.compiled.
ApiError compile_constraint(text::grammar::ConstraintCompiler& compiler, ApiRequest& request);

}  // namespace firstlight::server
