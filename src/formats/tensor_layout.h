// SPDX-License-Identifier: Apache-2.0
// The one check that every read path passes: do tensors of these shapes and types lie in a file of this size, each byte
// of the data belonging to exactly one of them? Also the arithmetic of shapes and sizes, with overflow refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"
#include "tensor/dtype.h"

namespace firstlight::formats {

// Product of `shape`. Errors: kInvalidData for a negative dimension or a product past 2^63 - 1.
Result<int64_t> count_elements(std::span<const int64_t> shape);

// Bytes of `elements` in blocks. Errors: kInvalidData when they are no whole number of blocks or the size overflows.
Result<uint64_t> count_bytes(int64_t elements, int64_t block_elements, int64_t block_bytes);

struct DataRegion {
  uint64_t begin = 0;                                // where tensor data begins in the file
  std::optional<uint64_t> file_size = std::nullopt;  // nullopt: not known, nothing is checked against it
  uint64_t alignment = 1;                            // holes below this many bytes are padding; 1: none allowed
};

// Sorts `records` by offset (ties by size, then name) and checks: data begins at region.begin, no overlaps, no holes,
// no bytes behind the last tensor, nothing past the end of the file. Errors: kInvalidData naming the tensor(s) and
// numbers.
Status sort_and_check_layout(std::vector<TensorRecord>& records, const DataRegion& region);

}  // namespace firstlight::formats
