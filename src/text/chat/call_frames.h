// SPDX-License-Identifier: Apache-2.0
// A call as its format should write it, for answers that must be one (tool_choice "required" or a function's name):
// what stands before the JSON, the JSON's schema, and what stands behind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat/chat_format.h"
#include "text/chat/tool_set.h"

namespace firstlight::text {

struct CallFrame {
  std::string before, schema, after;  // schema: JSON text
};

// One frame for each tool, or for the one of this name ("": all of them). Errors: kUnsupported where the format writes
// arguments otherwise than as JSON; kInvalidArgument for a name that is no tool.
Result<std::vector<CallFrame>> call_frames(const CallSyntax& syntax, const ToolSet& tools, std::string_view name);

}  // namespace firstlight::text
