// SPDX-License-Identifier: Apache-2.0
#include "align/row_store.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"

namespace firstlight::align {
namespace {

Status disk_error(const char* what) {
  return unavailable(std::string("activations between layers: cannot ") + what + ": " + std::strerror(errno));
}

}  // namespace

Result<RowStore> RowStore::create(int64_t row_bytes, int64_t num_rows, bool in_memory) {
  RowStore store;
  store.row_bytes_ = row_bytes;
  if (in_memory) {
    store.memory_.resize(static_cast<size_t>(row_bytes * num_rows));
  } else {
    store.file_.reset(std::tmpfile());
    if (store.file_ == nullptr) return disk_error("make a temporary file");
  }
  return store;
}

Status RowStore::write(int64_t first_row, std::span<const std::byte> bytes) {
  const int64_t at = first_row * row_bytes_;
  if (file_ == nullptr) {
    FL_CHECK(static_cast<size_t>(at) + bytes.size() <= memory_.size());
    std::memcpy(memory_.data() + at, bytes.data(), bytes.size());
    return ok_status();
  }
  for (size_t done = 0; done < bytes.size();) {
    const auto count =
        ::pwrite(::fileno(file_.get()), bytes.data() + done, bytes.size() - done, at + static_cast<int64_t>(done));
    if (count <= 0) return disk_error("write");
    done += static_cast<size_t>(count);
  }
  return ok_status();
}

Status RowStore::read(int64_t first_row, std::span<std::byte> bytes) const {
  const int64_t at = first_row * row_bytes_;
  if (file_ == nullptr) {
    FL_CHECK(static_cast<size_t>(at) + bytes.size() <= memory_.size());
    std::memcpy(bytes.data(), memory_.data() + at, bytes.size());
    return ok_status();
  }
  for (size_t done = 0; done < bytes.size();) {
    const auto count =
        ::pread(::fileno(file_.get()), bytes.data() + done, bytes.size() - done, at + static_cast<int64_t>(done));
    if (count <= 0) return disk_error("read");
    done += static_cast<size_t>(count);
  }
  return ok_status();
}

}  // namespace firstlight::align
