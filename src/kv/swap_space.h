// SPDX-License-Identifier: Apache-2.0
// Room for the pages of sequences that were put out of the cache: so many bytes of the host's memory, then so many of a
// file that nobody else can open and that goes with the process. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace firstlight::kv {

using SwapSlot = int32_t;
inline constexpr SwapSlot kNoSlot = -1;

struct SwapOptions {
  int64_t host_bytes = 0;
  int64_t disk_bytes = 0;
  std::filesystem::path folder;  // of the file; empty: the system's for temporary files
};

class SwapSpace {
 public:
  // Errors where disk_bytes is not 0: kInvalidArgument, where the folder takes no file or has less room (both numbers).
  static Result<std::unique_ptr<SwapSpace>> create(const SwapOptions& options);
  ~SwapSpace();

  // A slot of `bytes` that `fill` writes. Errors: kOutOfMemory (needed and available), those of `fill` and of the file.
  Result<SwapSlot> put(size_t bytes, const std::function<Status(std::span<std::byte>)>& fill);
  // Shows what the slot holds. Errors: those of `take` and of the file.
  Status get(SwapSlot slot, const std::function<Status(std::span<const std::byte>)>& take);
  void release(SwapSlot slot);

  int64_t host_used_bytes() const { return host_used_; }
  int64_t disk_used_bytes() const { return disk_used_; }
  int64_t available_bytes() const { return options_.host_bytes - host_used_ + options_.disk_bytes - disk_used_; }

 private:
  struct Slot {
    size_t bytes = 0;
    std::unique_ptr<std::byte[]> memory;  // null: on disk, at
    int64_t offset = 0;
  };
  explicit SwapSpace(const SwapOptions& options) : options_(options) {}
  Result<Slot> put_in_memory(size_t bytes, const std::function<Status(std::span<std::byte>)>& fill);
  Result<Slot> put_on_disk(size_t bytes, const std::function<Status(std::span<std::byte>)>& fill);

  SwapOptions options_;
  int file_ = -1;
  int64_t file_end_ = 0;
  int64_t host_used_ = 0, disk_used_ = 0;
  std::vector<Slot> slots_;  // bytes 0: free
  std::vector<SwapSlot> free_slots_;
  std::map<size_t, std::vector<int64_t>> holes_;  // of the file, by size
  std::vector<std::byte> bounce_;
};

}  // namespace firstlight::kv
