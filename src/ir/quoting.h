// SPDX-License-Identifier: Apache-2.0
// How names stand in the text form: bare where every character is harmless, as a JSON-like string elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "ops/quoting.h"

namespace firstlight::ir {

inline bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '/';
}

using ops::quoted_string;

// `text` itself when it is not empty and all its characters are name characters, else quoted_string(text).
std::string quoted_name(std::string_view text);

}  // namespace firstlight::ir
