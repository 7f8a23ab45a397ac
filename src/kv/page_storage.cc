// SPDX-License-Identifier: Apache-2.0
#include "kv/page_storage.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace firstlight::kv {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlab = 8 * kHugePage;
// Of one size, pages are taken one by one before slabs are worth what they round up to.
constexpr size_t kLoose = size_t{32} << 20;

// Pages of one size. Slabs lie on huge pages: attention walks many pages, and would wait for the translation of every
// few rows' addresses else. A slab whose pages have all come back is given back.
class Pool {
 public:
  explicit Pool(size_t bytes) : bytes_(bytes) {}

  std::byte* take() {
    if (loose_ * bytes_ < kLoose || bytes_ >= kHugePage) return take_loose();
    for (auto& [base, slab] : slabs_) {
      if (slab.used < kSlab / bytes_) return take_from(base, slab);
    }
    auto* base = static_cast<std::byte*>(std::aligned_alloc(kHugePage, kSlab));
    if (base == nullptr) return nullptr;
    static_cast<void>(::madvise(base, kSlab, MADV_HUGEPAGE));  // advice: a refusal changes nothing
    return take_from(base, slabs_[base]);
  }

  void give(std::byte* page) {
    auto found = slabs_.upper_bound(page);
    if (found == slabs_.begin() || page >= (--found)->first + kSlab) {
      --loose_;
      return std::free(page);
    }
    found->second.back.push_back(page);
    if (--found->second.used > 0) return;
    std::free(found->first);
    slabs_.erase(found);
  }

 private:
  struct Slab {
    size_t used = 0;
    size_t fresh = 0;              // pages that were handed out once at least: the first of the slab
    std::vector<std::byte*> back;  // of these, those that came back
  };

  std::byte* take_loose() {
    const size_t alignment = bytes_ >= kHugePage ? kHugePage : 64;
    const size_t rounded = (bytes_ + alignment - 1) / alignment * alignment;
    auto* page = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    if (page == nullptr) return nullptr;
    if (alignment == kHugePage) static_cast<void>(::madvise(page, rounded, MADV_HUGEPAGE));
    ++loose_;
    return page;
  }

  std::byte* take_from(std::byte* base, Slab& slab) const {
    ++slab.used;
    if (slab.back.empty()) return base + bytes_ * slab.fresh++;
    std::byte* page = slab.back.back();
    slab.back.pop_back();
    return page;
  }

  size_t bytes_;
  size_t loose_ = 0;  // pages outside of slabs
  std::map<std::byte*, Slab> slabs_;
};

class HostPages final : public PageStorage {
 public:
  std::byte* take(size_t bytes) override {
    std::byte* page = nullptr;
    {
      const std::scoped_lock lock(mutex_);  // caches of several threads take from one host
      page = pools_.try_emplace(bytes, bytes).first->second.take();
    }
    if (page != nullptr) std::memset(page, 0, bytes);
    return page;
  }
  void give(std::byte* page, size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    pools_.at(bytes).give(page);
  }
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

 private:
  std::mutex mutex_;
  std::map<size_t, Pool> pools_;
};

}  // namespace

PageStorage& host_pages() {
  static HostPages& pages = *new HostPages;  // caches of static storage may outlive everything else
  return pages;
}

}  // namespace firstlight::kv
