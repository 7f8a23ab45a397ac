// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_pages.h"

#include <algorithm>
#include <utility>

namespace firstlight::runtime {
namespace {

constexpr int64_t kLeastPool = int64_t{1} << 20;

std::byte* page_at(int64_t place) { return reinterpret_cast<std::byte*>(static_cast<intptr_t>(place)); }

}  // namespace

std::byte* DevicePages::take(size_t bytes) {
  auto& free = free_[bytes];
  std::byte* page = nullptr;
  if (!free.empty()) {
    page = free.back();
    free.pop_back();
  } else {
    const auto size = static_cast<int64_t>(bytes);
    if (end_ + size > pool_.bytes()) {
      if (Status grown = grow(end_ + size); !grown.ok()) {
        if (grown.code() != StatusCode::kOutOfMemory) note(std::move(grown));
        return nullptr;
      }
    }
    page = page_at(std::exchange(end_, end_ + size));
  }
  zero(page, bytes);
  return page;
}

void DevicePages::give(std::byte* page, size_t bytes) { free_[bytes].push_back(page); }

void DevicePages::zero(std::byte* page, size_t bytes) {
  note(device_.compute().fill(pool_.view(place(page), static_cast<int64_t>(bytes)), 0));
}

void DevicePages::copy(std::byte* to, const std::byte* from, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  note(device_.compute().copy(pool_.view(place(to), size), pool_.view(place(from), size)));
}

Status DevicePages::read(std::byte* host, const std::byte* page, size_t bytes) {
  FL_TRY(device_.compute().copy_out({host, bytes}, pool_.view(place(page), static_cast<int64_t>(bytes))));
  return device_.compute().finish();
}

Status DevicePages::write(std::byte* page, const std::byte* host, size_t bytes) {
  FL_TRY(device_.compute().copy_in(pool_.view(place(page), static_cast<int64_t>(bytes)), {host, bytes}));
  return device_.compute().finish();  // the host's memory may go
}

Status DevicePages::grow(int64_t needed) {
  const int64_t wanted = std::max({needed, 2 * pool_.bytes(), kLeastPool});
  auto larger = device_.allocate(wanted);
  if (!larger.ok()) larger = device_.allocate(needed);
  if (!larger.ok()) return std::move(larger).status();
  if (pool_) {
    FL_TRY(device_.compute().copy(larger->view(0, pool_.bytes()), pool_));
    FL_TRY(device_.compute().finish());  // the old one may go
  }
  pool_ = *std::move(larger);
  return ok_status();
}

void DevicePages::note(Status status) {
  if (status_.ok() && !status.ok()) status_ = std::move(status);
}

Status DevicePages::take_status() { return std::exchange(status_, ok_status()); }

}  // namespace firstlight::runtime
