// SPDX-License-Identifier: Apache-2.0
#include "ir/quoting.h"

#include <algorithm>

namespace firstlight::ir {

std::string quoted_string(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string quoted_name(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_name_char)) return std::string(text);
  return quoted_string(text);
}

}  // namespace firstlight::ir
