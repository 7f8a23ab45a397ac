// SPDX-License-Identifier: Apache-2.0
#include "kv/page_storage.h"

#include <cstdlib>
#include <cstring>

namespace firstlight::kv {
namespace {

class HostPages final : public PageStorage {
 public:
  std::byte* take(size_t bytes) override {
    auto* page = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
    if (page != nullptr) std::memset(page, 0, bytes);
    return page;
  }
  void give(std::byte* page, size_t) override { std::free(page); }
  void zero(std::byte* page, size_t bytes) override { std::memset(page, 0, bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  Status read(std::byte* host, const std::byte* page, size_t bytes) override {
    std::memcpy(host, page, bytes);
    return ok_status();
  }
  Status write(std::byte* page, const std::byte* host, size_t bytes) override {
    std::memcpy(page, host, bytes);
    return ok_status();
  }
};

}  // namespace

PageStorage& host_pages() {
  static HostPages pages;
  return pages;
}

}  // namespace firstlight::kv
