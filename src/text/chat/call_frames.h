// SPDX-License-Identifier: Apache-2.0
// The calls of an answer as its format should write them, for answers that must be calls (tool_choice "required" or a
// function's name): a structure for constraints (text/grammar/structure.h). Whatever text it allows is read as calls
// with arguments that their tools' JSON Schemas allow.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "text/chat/chat_format.h"
#include "text/chat/tool_set.h"

namespace firstlight::text {

// One call of these tools, or one and more. Optional parameters may be there, additional ones are not in formats of
// parameter lists. Errors: kInvalidArgument for a name that is no tool; kUnsupported for schemas that the format cannot
// be held to. What else is wrong with a schema shows when the structure is compiled, under "the parameters of tool
// 'f'".
Result<Json> call_structure(const CallSyntax& syntax, const ToolSet& tools, const std::vector<std::string>& names,
                            bool one_only);

}  // namespace firstlight::text
