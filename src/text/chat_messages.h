// SPDX-License-Identifier: Apache-2.0
// Messages as clients send them, brought into the one form a template is known to take: null, absent and empty content
// are the same, text parts become text where parts are not understood, tool call arguments are decoded exactly once.
#pragma once

#include "base/json_fwd.h"
#include "base/status.h"

namespace firstlight::text {

struct MessageForm {
  bool text_content = true;
  bool part_content = false;
  bool part_tool_content = false;
  bool null_content_for_calls = false;
  bool string_arguments = false;
};

// Errors: kInvalidArgument naming the message (not an object, no role, arguments that are no JSON object, unknown
// content); kUnsupported for parts that are no text where the template takes text only.
Result<Json> normalize_messages(const Json& messages, const MessageForm& form);

}  // namespace firstlight::text
