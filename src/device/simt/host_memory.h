// SPDX-License-Identifier: Apache-2.0
// Memory of the simt device: host memory with a watched edge on both sides, and the account of how much is in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "device/device.h"

namespace firstlight::device {

struct MemoryAccount {
  int64_t limit_bytes = 0;
  std::atomic<int64_t> used_bytes{0};
};

class HostMemory final : public Memory {
 public:
  // Errors: kOutOfMemory with needed and available bytes. `poison`: filled with NaN.
  static Result<std::shared_ptr<HostMemory>> allocate(std::shared_ptr<MemoryAccount> account, int64_t bytes,
                                                      bool poison);
  // Memory of somebody else; has no edges.
  static std::shared_ptr<HostMemory> wrap(std::byte* data, int64_t bytes);
  ~HostMemory() override;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Whether nobody wrote over the edges.
  bool edges_are_whole() const;
  void mend_edges();

  static constexpr int64_t kAlignment = 64;

 private:
  HostMemory() = default;
  std::shared_ptr<MemoryAccount> account_;
  std::byte* block_ = nullptr;  // empty: wrapped
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace firstlight::device
