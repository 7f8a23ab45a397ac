// SPDX-License-Identifier: Apache-2.0
#include "kv/swap_space.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/check.h"

namespace firstlight::kv {
namespace {

// Whole ranges, whatever the system moves at a time.
Status write_all(int file, std::span<const std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t moved = ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return out_of_memory(std::string("swap file: ") + std::strerror(moved < 0 ? errno : ENOSPC));
    bytes = bytes.subspan(static_cast<size_t>(moved));
    offset += moved;
  }
  return ok_status();
}

Status read_all(int file, std::span<std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t moved = ::pread(file, bytes.data(), bytes.size(), offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return internal_error(std::string("swap file: ") + std::strerror(errno));
    if (moved == 0) return internal_error("swap file: shorter than what was written");
    bytes = bytes.subspan(static_cast<size_t>(moved));
    offset += moved;
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<SwapSpace>> SwapSpace::create(const SwapOptions& options) {
  std::unique_ptr<SwapSpace> space(new SwapSpace(options));
  if (options.disk_bytes > 0) {
    std::error_code error;
    const auto folder = options.folder.empty() ? std::filesystem::temp_directory_path(error) : options.folder;
    std::string name = (folder / "firstlight-swap-XXXXXX").string();
    space->file_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (space->file_ < 0) {
      return invalid_argument("swap folder " + folder.string() + ": " + std::strerror(errno));
    }
    ::unlink(name.c_str());
    const auto room = std::filesystem::space(folder, error);
    if (!error && room.available < static_cast<uintmax_t>(options.disk_bytes)) {
      return invalid_argument("swap folder " + folder.string() + " has " + std::to_string(room.available) +
                              " bytes free, " + std::to_string(options.disk_bytes) + " are asked for");
    }
  }
  return space;
}

SwapSpace::~SwapSpace() {
  if (file_ >= 0) ::close(file_);
}

Result<SwapSpace::Slot> SwapSpace::put_in_memory(size_t bytes,
                                                 const std::function<Status(std::span<std::byte>)>& fill) {
  Slot slot{.bytes = bytes, .memory = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes]), .offset = 0};
  if (slot.memory == nullptr) return out_of_memory("swap: the system has no " + std::to_string(bytes) + " bytes");
  FL_TRY(fill({slot.memory.get(), bytes}));
  host_used_ += static_cast<int64_t>(bytes);
  return slot;
}

Result<SwapSpace::Slot> SwapSpace::put_on_disk(size_t bytes, const std::function<Status(std::span<std::byte>)>& fill) {
  bounce_.resize(std::max(bounce_.size(), bytes));
  const std::span<std::byte> content(bounce_.data(), bytes);
  FL_TRY(fill(content));
  auto& holes = holes_[bytes];
  const bool grows = holes.empty();
  Slot slot{.bytes = bytes, .memory = nullptr, .offset = grows ? file_end_ : holes.back()};
  FL_TRY(write_all(file_, content, slot.offset));
  if (grows) {
    file_end_ += static_cast<int64_t>(bytes);
  } else {
    holes.pop_back();
  }
  disk_used_ += static_cast<int64_t>(bytes);
  return slot;
}

Result<SwapSlot> SwapSpace::put(size_t bytes, const std::function<Status(std::span<std::byte>)>& fill) {
  FL_CHECK(bytes > 0);
  const auto size = static_cast<int64_t>(bytes);
  Slot made;
  if (host_used_ + size <= options_.host_bytes) {
    made = FL_TRY(put_in_memory(bytes, fill));
  } else if (disk_used_ + size <= options_.disk_bytes) {
    made = FL_TRY(put_on_disk(bytes, fill));
  } else {
    return out_of_memory("swap: " + std::to_string(bytes) + " bytes needed, " + std::to_string(available_bytes()) +
                         " of " + std::to_string(options_.host_bytes + options_.disk_bytes) + " available");
  }
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<SwapSlot>(slots_.size()));
    slots_.emplace_back();
  }
  const SwapSlot slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[static_cast<size_t>(slot)] = std::move(made);
  return slot;
}

Status SwapSpace::get(SwapSlot slot, const std::function<Status(std::span<const std::byte>)>& take) {
  const Slot& from = slots_[static_cast<size_t>(slot)];
  FL_CHECK(from.bytes > 0);
  if (from.memory != nullptr) return take({from.memory.get(), from.bytes});
  bounce_.resize(std::max(bounce_.size(), from.bytes));
  FL_TRY(read_all(file_, {bounce_.data(), from.bytes}, from.offset));
  return take({bounce_.data(), from.bytes});
}

void SwapSpace::release(SwapSlot slot) {
  Slot& gone = slots_[static_cast<size_t>(slot)];
  FL_CHECK(gone.bytes > 0);
  if (gone.memory != nullptr) {
    host_used_ -= static_cast<int64_t>(gone.bytes);
  } else {
    disk_used_ -= static_cast<int64_t>(gone.bytes);
    holes_[gone.bytes].push_back(gone.offset);
  }
  gone = {};
  free_slots_.push_back(slot);
}

}  // namespace firstlight::kv
