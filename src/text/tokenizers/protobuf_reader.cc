// SPDX-License-Identifier: Apache-2.0
// See protobuf_reader.h.
#include "text/tokenizers/protobuf_reader.h"

namespace firstlight::text {

Result<uint64_t> ProtobufReader::varint() {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return invalid_data("protobuf: a number is cut short");
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return invalid_data("protobuf: a number of more than 10 bytes");
}

Result<uint64_t> ProtobufReader::fixed(size_t num_bytes) {
  if (rest_.size() < num_bytes) return invalid_data("protobuf: a number is cut short");
  uint64_t value = 0;
  for (size_t i = 0; i < num_bytes; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
  rest_.remove_prefix(num_bytes);
  return value;
}

Result<ProtobufReader::Field> ProtobufReader::next() {
  const uint64_t tag = FL_TRY(varint());
  Field field;
  if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return invalid_data("protobuf: field number " + std::to_string(tag >> 3));
  field.number = static_cast<uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0:
      field.value = FL_TRY(varint());
      return field;
    case 1:
      field.value = FL_TRY(fixed(8));
      return field;
    case 5:
      field.value = FL_TRY(fixed(4));
      return field;
    case 2: {
      const uint64_t length = FL_TRY(varint());
      if (length > rest_.size()) {
        return invalid_data("protobuf: field of " + std::to_string(length) + " bytes, " + std::to_string(rest_.size()) +
                            " are left");
      }
      field.bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return field;
    }
    default:
      return invalid_data("protobuf: wire type " + std::to_string(tag & 7));
  }
}

}  // namespace firstlight::text
