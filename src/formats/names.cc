// SPDX-License-Identifier: Apache-2.0
// How names, shapes and paths from files appear in messages.
#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "formats/tensor_file.h"

namespace firstlight::formats {
namespace {

constexpr size_t kLongestName = 200;

// Length of the well-formed UTF-8 sequence at `at`, 0 when there is none (RFC 3629).
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  if (length > 2) {
    const unsigned second = byte(at + 1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
        (lead == 0xf4 && second > 0x8f)) {
      return 0;
    }
  }
  return length;
}

}  // namespace

std::string quote_name(std::string_view name) {
  std::string out = "\"";
  size_t i = 0;
  while (i < name.size() && i < kLongestName) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const size_t length = utf8_length(name, i);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += name[i++];
    } else if (length == 0 || byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      out += escape.data();
      ++i;
    } else {
      out += name.substr(i, length);
      i += length;
    }
  }
  if (i < name.size()) out += "…";
  return out + "\"";
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

std::string describe_file(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(path, error);
  return error ? path : path + " (a link to " + target.string() + ")";
}

int64_t TensorRecord::num_elements() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

}  // namespace firstlight::formats
