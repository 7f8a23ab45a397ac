// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the safetensors readers: any bytes give a header or a Status; what a header lists lies in the file, in
// order, each byte in one tensor. The index of shards is read from the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firstlight::formats;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto header = parse_safetensors_header(bytes, size); header.ok()) {
    uint64_t end = header->data_offset;
    for (const TensorRecord& record : header->tensors) {
      FL_CHECK(record.dtype.has_value());
      FL_CHECK(record.offset == end);
      end += record.size_bytes;
    }
    FL_CHECK(end == size);
  } else {
    FL_CHECK(!header.status().message().empty());
  }
  (void)parse_safetensors_header(bytes, std::nullopt);
  const auto index = parse_safetensors_index({reinterpret_cast<const char*>(data), size});
  FL_CHECK(index.ok() || !index.status().message().empty());
  return 0;
}
