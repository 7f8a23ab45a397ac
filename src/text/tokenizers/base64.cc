// SPDX-License-Identifier: Apache-2.0
// See base64.h.
#include "text/tokenizers/base64.h"

#include <cstdint>

namespace firstlight::text {
namespace {

int digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return invalid_data("base64 text of impossible length " + std::to_string(text.size()));
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int num_bits = 0;
  for (char c : text) {
    const int value = digit(c);
    if (value < 0) return invalid_data(std::string("base64 text with the character '") + c + "'");
    bits = (bits << 6) | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out.push_back(static_cast<char>(static_cast<unsigned char>((bits >> num_bits) & 0xFF)));
  }
  return out;
}

}  // namespace firstlight::text
