// SPDX-License-Identifier: Apache-2.0
#include "formats/tensor_layout.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

namespace firstlight::formats {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

std::string tensor_text(const TensorRecord& record) { return "tensor " + quote_name(record.name); }

// A record's end, or an error when it does not lie in the file.
Result<uint64_t> checked_end(const TensorRecord& record, const DataRegion& region) {
  const uint64_t limit = region.file_size.value_or(static_cast<uint64_t>(kLargest));
  if (record.offset > limit || record.size_bytes > limit - record.offset) {
    return invalid_data(tensor_text(record) + ": " + std::to_string(record.size_bytes) + " bytes at byte " +
                        std::to_string(record.offset) + " end past the end of the file (" + std::to_string(limit) +
                        " bytes): the file is cut short or the header is wrong");
  }
  return record.offset + record.size_bytes;
}

}  // namespace

Result<int64_t> count_elements(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool is_empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return invalid_data("shape " + shape_text(shape) + " has a negative dimension");
    is_empty = is_empty || dim == 0;
    // A zero further on does not excuse an absurd product before it: readers elsewhere multiply in order.
    if (dim > 0 && count > kLargest / dim) {
      return invalid_data("shape " + shape_text(shape) + " has more elements than 64 bits can count");
    }
    if (dim > 0) count *= dim;
  }
  return is_empty ? 0 : count;
}

Result<uint64_t> count_bytes(int64_t elements, int64_t block_elements, int64_t block_bytes) {
  if (elements % block_elements != 0) {
    return invalid_data(std::to_string(elements) + " elements are no whole number of blocks of " +
                        std::to_string(block_elements));
  }
  const int64_t blocks = elements / block_elements;
  if (blocks > kLargest / block_bytes) {
    return invalid_data(std::to_string(elements) + " elements take more bytes than 64 bits can count");
  }
  return static_cast<uint64_t>(blocks * block_bytes);
}

Status sort_and_check_layout(std::vector<TensorRecord>& records, const DataRegion& region) {
  std::sort(records.begin(), records.end(), [](const TensorRecord& a, const TensorRecord& b) {
    return std::tie(a.offset, a.size_bytes, a.name) < std::tie(b.offset, b.size_bytes, b.name);
  });
  uint64_t end = region.begin;
  const TensorRecord* previous = nullptr;
  for (const TensorRecord& record : records) {
    const std::string after = previous == nullptr ? std::string("the header") : tensor_text(*previous);
    if (record.offset < end) {
      return invalid_data(tensor_text(record) + " begins at byte " + std::to_string(record.offset) + ", inside " +
                          after + ", which ends at byte " + std::to_string(end));
    }
    if (record.offset - end >= region.alignment) {
      return invalid_data(std::to_string(record.offset - end) + " bytes between the end of " + after + " (byte " +
                          std::to_string(end) + ") and " + tensor_text(record) + " belong to no tensor");
    }
    end = FL_TRY(checked_end(record, region));
    previous = &record;
  }
  if (region.file_size && *region.file_size > end && *region.file_size - end >= region.alignment) {
    return invalid_data(std::to_string(*region.file_size - end) + " trailing bytes: the data ends at byte " +
                        std::to_string(end) + ", the file has " + std::to_string(*region.file_size) + " bytes");
  }
  return ok_status();
}

}  // namespace firstlight::formats
