// SPDX-License-Identifier: Apache-2.0
// Where pages lie: in the host's memory, or in a device's. A page is a handle; that of host storage is its address,
// that of a device's storage its place in a pool there, which nobody on the host may follow. Not thread-safe.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace firstlight::kv {

class PageStorage {
 public:
  virtual ~PageStorage() = default;
  // A page of `bytes` (a multiple of 64) that holds zeros; null when there is no memory for it.
  virtual std::byte* take(size_t bytes) = 0;
  // Gives it back; `bytes` as it was taken.
  virtual void give(std::byte* page, size_t bytes) = 0;
  virtual void zero(std::byte* page, size_t bytes) = 0;
  // Both pages of this storage and of that size.
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Between a page and the host's memory. Errors: those of the device.
  virtual Status read(std::byte* host, const std::byte* page, size_t bytes) = 0;
  virtual Status write(std::byte* page, const std::byte* host, size_t bytes) = 0;
};

// The host's memory.
PageStorage& host_pages();

}  // namespace firstlight::kv
