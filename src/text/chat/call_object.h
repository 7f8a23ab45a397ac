// SPDX-License-Identifier: Apache-2.0
// Calls written as JSON objects, {"name": …, "arguments": {…}}, read from a beginning: as far as the arguments, which a
// stream goes on with.
#pragma once

#include <string>
#include <string_view>

#include "text/chat/chat_format.h"

namespace firstlight::text {

struct CallObject {
  std::string name;
  size_t length = 0;      // of what was read: up to the arguments, or of the whole object
  bool is_whole = false;  // the arguments were found before the name, or there are none
  std::string arguments;  // of a whole object
  int levels = 1;         // objects that are still open behind the arguments
};

// kNo where `text` is not the beginning of such an object (other members may stand in it).
Match match_call_object(const CallSyntax& syntax, std::string_view text, bool over, CallObject& call);

// A further member, ', "key": value', at the front of `text`.
Match match_member(std::string_view text, bool over, size_t& length);

// The arguments as one wants them: a string's content where they were written as a string, "{}" for null.
std::string decode_arguments(std::string_view written);
// Of a string that was cut: the content of what there is.
std::string decode_cut_arguments(std::string_view written);

}  // namespace firstlight::text
