// SPDX-License-Identifier: Apache-2.0
// Reads the protobuf wire format field by field. Nothing is trusted: every length is checked against what is left.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace firstlight::text {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;      // varint, fixed32 or fixed64
    std::string_view bytes;  // length-delimited
  };

  bool at_end() const { return rest_.empty(); }
  // Errors: kInvalidData when the bytes are cut short or use a wire type without meaning (groups are refused).
  Result<Field> next();

 private:
  Result<uint64_t> varint();
  Result<uint64_t> fixed(size_t num_bytes);

  std::string_view rest_;
};

}  // namespace firstlight::text
