// SPDX-License-Identifier: Apache-2.0
// The byte alphabet of GPT-2: each byte as a printable code point below U+0144, so that byte strings can be token
// texts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firstlight::text {

// Code point of each byte: printable Latin-1 bytes stand for themselves, the other 68 follow from U+0100 on in byte
// order.
const std::array<char32_t, 256>& byte_alphabet();

// The text's bytes written in the alphabet.
void append_byte_alphabet(std::string& out, std::string_view bytes);

// The bytes a string of the alphabet stands for; nothing when it has a character outside the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

// The byte of a "<0xAB>" token.
std::optional<unsigned char> parse_byte_token(std::string_view token);
std::string byte_token(unsigned char byte);

}  // namespace firstlight::text
