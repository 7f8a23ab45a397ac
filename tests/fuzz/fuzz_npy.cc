// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the NPY reader: any bytes give an array whose data fits its shape, or a Status.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto array = firstlight::formats::parse_npy(std::as_bytes(std::span(data, size)));
  if (!array.ok()) {
    FL_CHECK(!array.status().message().empty());
    return 0;
  }
  uint64_t elements = 1;
  for (const int64_t dim : array->shape) elements *= static_cast<uint64_t>(dim);
  const auto width = static_cast<uint64_t>(firstlight::tensor::dtype_info(array->dtype).block_bytes);
  FL_CHECK(elements * width == array->data.size());
  return 0;
}
