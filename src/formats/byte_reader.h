// SPDX-License-Identifier: Apache-2.0
// A cursor over bytes from outside: little endian numbers and length-prefixed strings, each checked against what
// remains before it is read. Messages give the position; the caller adds what was being read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace firstlight::formats {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  Result<T> number() {
    static_assert(std::is_arithmetic_v<T>);
    const auto raw = FL_TRY(take(sizeof(T)));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  // The next `count` bytes. Error: kInvalidData when fewer remain.
  Result<std::span<const std::byte>> take(uint64_t count) {
    if (count > remaining()) {
      return invalid_data(std::to_string(count) + " bytes wanted at byte " + std::to_string(position_) + ", only " +
                          std::to_string(remaining()) + " remain");
    }
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += taken.size();
    return taken;
  }

  // A 64-bit length, then that many bytes.
  Result<std::string_view> string() {
    const uint64_t length = FL_TRY(number<uint64_t>());
    const auto raw = FL_TRY(take(length));
    return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace firstlight::formats
