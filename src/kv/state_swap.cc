// SPDX-License-Identifier: Apache-2.0
// StateCache: a sequence's pages out to swap space, and back.
#include "base/check.h"
#include "kv/state_cache.h"

namespace firstlight::kv {

void StateCache::drop_saved(SavedState& saved, SwapSpace& space) {
  for (const auto& pages : saved.pages) {
    for (const SwapSlot slot : pages) {
      if (slot != kNoSlot) space.release(slot);
    }
  }
  saved = {};
}

Result<SavedState> StateCache::save(SequenceId id, SwapSpace& space) {
  const Sequence& from = sequence(id);
  SavedState saved{.length = from.length, .pages = {}};
  for (size_t s = 0; s < states_.size(); ++s) {
    auto& slots = saved.pages.emplace_back();
    for (const std::byte* page : from.pages[s]) {
      if (page == nullptr) {
        slots.push_back(kNoSlot);
        continue;
      }
      const auto slot = space.put(states_[s].page_bytes, [&](std::span<std::byte> bytes) {
        return options_.storage->read(bytes.data(), page, bytes.size());
      });
      if (!slot.ok()) {
        drop_saved(saved, space);
        return slot.status();
      }
      slots.push_back(*slot);
    }
  }
  return saved;
}

Status StateCache::load(SequenceId id, SavedState& saved, SwapSpace& space) {
  Sequence& back = sequence(id);
  FL_CHECK(back.length == 0 && saved.pages.size() == states_.size());
  int64_t needed = 0;
  for (size_t s = 0; s < states_.size(); ++s) {
    for (const SwapSlot slot : saved.pages[s])
      needed += slot == kNoSlot ? 0 : static_cast<int64_t>(states_[s].page_bytes);
  }
  const auto fill = [&]() -> Status {
    if (!has_room(needed)) {
      return out_of_memory("a sequence of " + std::to_string(saved.length) +
                           " tokens back from swap: " + std::to_string(needed) + " bytes needed, " +
                           std::to_string(used_bytes_) + " of " + std::to_string(options_.capacity_bytes) + " in use");
    }
    for (size_t s = 0; s < states_.size(); ++s) {
      for (const SwapSlot slot : saved.pages[s]) {
        std::byte* page = slot == kNoSlot ? nullptr : take_page(states_[s].page_bytes);
        if (page == nullptr && slot != kNoSlot)
          return out_of_memory("no page of " + std::to_string(states_[s].page_bytes) + " bytes");
        back.pages[s].push_back(page);
        if (page == nullptr) continue;
        FL_TRY(space.get(slot, [&](std::span<const std::byte> bytes) {
          return options_.storage->write(page, bytes.data(), bytes.size());
        }));
      }
    }
    return ok_status();
  };
  if (Status filled = fill(); !filled.ok()) {
    cut(back, 0);
    return filled;
  }
  back.length = saved.length;
  drop_saved(saved, space);
  return ok_status();
}

}  // namespace firstlight::kv
