// SPDX-License-Identifier: Apache-2.0
#include "device/simt/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace firstlight::device {
namespace {

constexpr int64_t kEdgeBytes = HostMemory::kAlignment;
constexpr std::byte kEdge{0xa5};

bool is_edge(const std::byte* bytes) {
  return std::all_of(bytes, bytes + kEdgeBytes, [](std::byte b) { return b == kEdge; });
}

}  // namespace

Result<std::shared_ptr<HostMemory>> HostMemory::allocate(std::shared_ptr<MemoryAccount> account, int64_t bytes,
                                                         bool poison) {
  const int64_t before = account->used_bytes.fetch_add(bytes);
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* block = nullptr;
  if (bytes <= account->limit_bytes - before) {
    block = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded + 2 * kEdgeBytes));
  }
  if (block == nullptr) {
    account->used_bytes.fetch_sub(bytes);
    return out_of_memory("simt: " + std::to_string(bytes) + " bytes needed, " +
                         std::to_string(std::max<int64_t>(account->limit_bytes - before, 0)) + " available");
  }
  std::shared_ptr<HostMemory> memory(new HostMemory);
  memory->account_ = std::move(account);
  memory->block_ = static_cast<std::byte*>(block);
  memory->data_ = memory->block_ + kEdgeBytes;
  memory->bytes_ = bytes;
  memory->mend_edges();
  if (poison) std::memset(memory->data_, 0xff, static_cast<size_t>(bytes));
  return memory;
}

std::shared_ptr<HostMemory> HostMemory::wrap(std::byte* data, int64_t bytes) {
  std::shared_ptr<HostMemory> memory(new HostMemory);
  memory->data_ = data;
  memory->bytes_ = bytes;
  return memory;
}

HostMemory::~HostMemory() {
  if (block_ == nullptr) return;
  account_->used_bytes.fetch_sub(bytes_);
  std::free(block_);
}

void HostMemory::mend_edges() {
  if (block_ == nullptr) return;
  std::memset(block_, std::to_integer<int>(kEdge), kEdgeBytes);
  std::memset(data_ + bytes_, std::to_integer<int>(kEdge), kEdgeBytes);
}

bool HostMemory::edges_are_whole() const { return block_ == nullptr || (is_edge(block_) && is_edge(data_ + bytes_)); }

}  // namespace firstlight::device
