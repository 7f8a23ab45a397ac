// SPDX-License-Identifier: Apache-2.0
// Pages of state in a device's memory: places in one pool, so that a kernel needs a pointer and a table of places. The
// pool grows by moving into a larger buffer on the device; places stay what they are.
#pragma once

#include <map>
#include <vector>

#include "device/device.h"
#include "kv/page_storage.h"

namespace firstlight::runtime {

class DevicePages final : public kv::PageStorage {
 public:
  explicit DevicePages(device::Device& device) : device_(device) {}

  std::byte* take(size_t bytes) override;
  void give(std::byte* page, size_t bytes) override;
  void zero(std::byte* page, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  Status read(std::byte* host, const std::byte* page, size_t bytes) override;
  Status write(std::byte* page, const std::byte* host, size_t bytes) override;

  // The pool as it is now; a page's place is its distance from the beginning.
  const device::Buffer& pool() const { return pool_; }
  static int64_t place(const std::byte* page) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(page)); }
  // Whether it is a page of this pool, or none.
  bool owns(const std::byte* page) const { return page == nullptr || (place(page) >= kFirst && place(page) < end_); }
  // The first error of a fill, a copy or a move since the last call: take, zero and copy have nobody to tell.
  Status take_status();

 private:
  static constexpr int64_t kFirst = 64;  // place 0 would be a null page
  Status grow(int64_t needed);
  void note(Status status);

  device::Device& device_;
  device::Buffer pool_;
  int64_t end_ = kFirst;  // of what has ever been handed out
  std::map<size_t, std::vector<std::byte*>> free_;
  Status status_;
};

}  // namespace firstlight::runtime
