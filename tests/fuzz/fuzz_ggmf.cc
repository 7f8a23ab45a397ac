// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the ggmf reader: any bytes give tensors that lie inside them, or a Status.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/ggmf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = firstlight::formats::parse_ggmf(std::as_bytes(std::span(data, size)));
  if (!file.ok()) {
    FL_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const auto& record : file->tensors) {
    FL_CHECK(record.offset <= size && record.size_bytes <= size - record.offset);
    const auto& info = firstlight::tensor::dtype_info(*record.dtype);
    FL_CHECK(static_cast<uint64_t>(record.num_elements() / info.block_elements * info.block_bytes) ==
             record.size_bytes);
  }
  return 0;
}
