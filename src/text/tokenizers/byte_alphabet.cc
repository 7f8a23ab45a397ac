// SPDX-License-Identifier: Apache-2.0
// See byte_alphabet.h.
#include "text/tokenizers/byte_alphabet.h"

#include "text/unicode.h"

namespace firstlight::text {
namespace {

bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet = {};
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) alphabet[byte] = stands_for_itself(byte) ? byte : next++;
  return alphabet;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = make_alphabet();
  return alphabet;
}

void append_byte_alphabet(std::string& out, std::string_view bytes) {
  const auto& alphabet = byte_alphabet();
  for (char byte : bytes) append_utf8(out, alphabet[static_cast<unsigned char>(byte)]);
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  static const std::array<int16_t, 0x144> inverse = [] {
    std::array<int16_t, 0x144> table = {};
    table.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte) table[byte_alphabet()[byte]] = static_cast<int16_t>(byte);
    return table;
  }();
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint point = decode_utf8(text, pos);
    pos += point.length;
    if (!point.valid || point.value >= inverse.size() || inverse[point.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(inverse[point.value])));
  }
  return bytes;
}

std::optional<unsigned char> parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string byte_token(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + '>';
}

}  // namespace firstlight::text
