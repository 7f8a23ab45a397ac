// SPDX-License-Identifier: Apache-2.0
// The fields about tools: tools (checked piece by piece, so that a fault names its place), tool_choice,
// parallel_tool_calls. Tools go into the prompt where the template has a place for them (checked when it is rendered).
#pragma once

#include "server/field_reader.h"

namespace firstlight::server {

struct ApiRequest;  // server/openai_api.h

void read_tools(FieldReader& fields, ApiRequest& request);

}  // namespace firstlight::server
