// SPDX-License-Identifier: Apache-2.0
// What an answer may be as a whole, where its text or its calls are constrained: thoughts stay free, as far as the
// model has any, and what comes behind them is held to the constraint. A structure for text/grammar/structure.h.
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "text/chat/chat_format.h"

namespace firstlight::text {

// `text` and `calls`: structures of what the answer may be, null where it may not; not both. `prompt`: the end of the
// prompt, the template's own: thoughts that it opened go on, and after those that it closed there are no others.
Json answer_structure(const ChatFormat& format, std::string_view prompt, Json text, Json calls);

}  // namespace firstlight::text
