// SPDX-License-Identifier: Apache-2.0
// The rows of one value between the piece that makes them and those that read them: in memory, or in a temporary file
// where they are many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace firstlight::align {

class RowStore {
 public:
  // Errors: kUnavailable where no temporary file can be made.
  static Result<RowStore> create(int64_t row_bytes, int64_t num_rows, bool in_memory);

  // Rows from `first_row` on, as many as the bytes are. Errors: kUnavailable (disk).
  Status write(int64_t first_row, std::span<const std::byte> bytes);
  Status read(int64_t first_row, std::span<std::byte> bytes) const;

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  int64_t row_bytes_ = 0;
  std::vector<std::byte> memory_;
  std::unique_ptr<std::FILE, Closer> file_;  // null: in memory
};

}  // namespace firstlight::align
