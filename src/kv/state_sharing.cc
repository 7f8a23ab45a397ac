// SPDX-License-Identifier: Apache-2.0
// StateCache: pages with several users.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/state_cache.h"

namespace firstlight::kv {

bool StateCache::has_fixed_states() const {
  return std::any_of(states_.begin(), states_.end(), [](const State& state) { return state.fixed; });
}

bool StateCache::has_windows() const {
  return std::any_of(states_.begin(), states_.end(), [](const State& state) { return state.window > 0; });
}

int64_t StateCache::snapshot_bytes() const {
  int64_t bytes = 0;
  for (const State& state : states_) bytes += state.fixed ? static_cast<int64_t>(state.page_bytes) : 0;
  return bytes;
}

// Calls visit(state, page) for every page of the block that is there.
template <typename Block, typename Visit>
void StateCache::for_pages(Block& block, const Visit& visit) const {
  size_t next = 0;
  for (const State& state : states_) {
    if (state.fixed) continue;
    for (int64_t p = 0; p < block_tokens_ / (state.page_rows * state.rate); ++p, ++next) {
      if (block[next] != nullptr) visit(state, block[next]);
    }
  }
}

bool StateCache::is_shared(const std::byte* page) const {
  const auto found = shared_.find(page);
  return found != shared_.end() && (found->second.kept || found->second.users > 1);
}

void StateCache::share_page(std::byte* page, size_t bytes) {
  Sharing& sharing = shared_.try_emplace(page, Sharing{.users = 1}).first->second;
  if (sharing.users == 0) unused_bytes_ -= static_cast<int64_t>(bytes);
  ++sharing.users;
}

PageBlock StateCache::keep_block(SequenceId id, int64_t block) {
  const Sequence& from = sequence(id);
  FL_CHECK(block >= 0 && (block + 1) * block_tokens_ <= from.length);
  PageBlock kept;
  for (size_t s = 0; s < states_.size(); ++s) {
    if (states_[s].fixed) continue;
    const int64_t pages = block_tokens_ / (states_[s].page_rows * states_[s].rate);
    for (int64_t p = block * pages; p < (block + 1) * pages; ++p) {
      std::byte* page = from.pages[s][static_cast<size_t>(p)];
      if (page != nullptr) shared_.try_emplace(page, Sharing{.users = 1}).first->second.kept = true;
      kept.push_back(page);
    }
  }
  return kept;
}

void StateCache::let_go(std::byte* page, size_t bytes) {
  const auto found = shared_.find(page);
  FL_CHECK(found != shared_.end() && found->second.kept);
  found->second.kept = false;
  if (found->second.users > 0) return;
  unused_bytes_ -= static_cast<int64_t>(bytes);
  shared_.erase(found);
  free_page(page, bytes);
}

void StateCache::drop_block(const PageBlock& block) {
  for_pages(block, [&](const State& state, std::byte* page) { let_go(page, state.page_bytes); });
}

void StateCache::strip_block(PageBlock& block) {
  for_pages(block, [&](const State& state, std::byte*& page) {
    if (shared_.at(page).users == 0) let_go(std::exchange(page, nullptr), state.page_bytes);
  });
}

void StateCache::strip_passed(PageBlock& block, int64_t index, int64_t length) {
  size_t next = 0;
  for (const State& state : states_) {
    if (state.fixed) continue;
    const int64_t pages = block_tokens_ / (state.page_rows * state.rate);
    const int64_t first = first_needed_page(state, length);
    for (int64_t p = index * pages; p < (index + 1) * pages; ++p, ++next) {
      if (block[next] == nullptr || is_needed(state, first, p) || shared_.at(block[next]).users > 0) continue;
      let_go(std::exchange(block[next], nullptr), state.page_bytes);
    }
  }
}

void StateCache::keep_missing(SequenceId id, int64_t index, PageBlock& block) {
  const Sequence& from = sequence(id);
  size_t next = 0;
  for (size_t s = 0; s < states_.size(); ++s) {
    if (states_[s].fixed) continue;
    const int64_t pages = block_tokens_ / (states_[s].page_rows * states_[s].rate);
    for (int64_t p = index * pages; p < (index + 1) * pages; ++p, ++next) {
      std::byte* page = from.pages[s][static_cast<size_t>(p)];
      if (block[next] != nullptr || page == nullptr) continue;
      shared_.try_emplace(page, Sharing{.users = 1}).first->second.kept = true;
      block[next] = page;
    }
  }
}

bool StateCache::can_adopt(std::span<const PageBlock* const> blocks) const {
  const int64_t length = static_cast<int64_t>(blocks.size()) * block_tokens_;
  size_t offset = 0;
  for (const State& state : states_) {
    if (state.fixed) continue;
    const auto pages = static_cast<size_t>(block_tokens_ / (state.page_rows * state.rate));
    const int64_t first = first_needed_page(state, length);
    for (size_t p = 0; p < blocks.size() * pages; ++p) {
      const bool is_there = (*blocks[p / pages])[offset + p % pages] != nullptr;
      if (!is_there && is_needed(state, first, static_cast<int64_t>(p))) return false;
    }
    offset += pages;
  }
  return true;
}

Status StateCache::adopt(SequenceId id, std::span<const PageBlock* const> blocks, std::optional<SnapshotId> from) {
  Sequence& heir = sequence(id);
  FL_CHECK(heir.length == 0 && can_adopt(blocks));
  const int64_t length = static_cast<int64_t>(blocks.size()) * block_tokens_;
  FL_CHECK(!from || snapshot(*from).length == length);
  size_t offset = 0;  // of the state's pages in a block
  for (size_t s = 0; s < states_.size(); ++s) {
    const State& state = states_[s];
    if (state.fixed) continue;
    const auto pages = static_cast<size_t>(block_tokens_ / (state.page_rows * state.rate));
    const int64_t first = first_needed_page(state, length);
    for (const PageBlock* block : blocks) {
      for (size_t p = 0; p < pages; ++p) {
        const bool needed = is_needed(state, first, static_cast<int64_t>(heir.pages[s].size()));
        std::byte* page = needed ? (*block)[offset + p] : nullptr;
        if (page != nullptr) share_page(page, state.page_bytes);
        heir.pages[s].push_back(page);
      }
    }
    offset += pages;
  }
  heir.length = length;
  for (size_t s = 0; s < states_.size(); ++s) {
    if (!states_[s].fixed || length == 0) continue;
    FL_CHECK(from.has_value());
    const auto bytes = static_cast<int64_t>(states_[s].page_bytes);
    std::byte* page = has_room(bytes) ? take_page(states_[s].page_bytes) : nullptr;
    if (page == nullptr) {
      cut(heir, 0);
      return out_of_memory("state '" + states_[s].name + "': " + std::to_string(bytes) + " bytes needed, " +
                           std::to_string(used_bytes_) + " of " + std::to_string(options_.capacity_bytes) + " in use");
    }
    options_.storage->copy(page, snapshot(*from).pages[s], states_[s].page_bytes);
    heir.pages[s].push_back(page);
  }
  return ok_status();
}

Status StateCache::fork(SequenceId id, SequenceId other) {
  Sequence& heir = sequence(id);
  const Sequence& from = sequence(other);
  FL_CHECK(heir.length == 0 && id != other);
  heir.length = from.length;
  for (size_t s = 0; s < states_.size(); ++s) {
    const State& state = states_[s];
    for (std::byte* page : from.pages[s]) {
      if (!state.fixed) {
        if (page != nullptr) share_page(page, state.page_bytes);
        heir.pages[s].push_back(page);
        continue;
      }
      const auto bytes = static_cast<int64_t>(state.page_bytes);
      std::byte* own = has_room(bytes) ? take_page(state.page_bytes) : nullptr;
      if (own == nullptr) {
        cut(heir, 0);
        return out_of_memory("state '" + state.name + "': " + std::to_string(bytes) + " bytes needed, " +
                             std::to_string(used_bytes_) + " of " + std::to_string(options_.capacity_bytes) +
                             " in use");
      }
      options_.storage->copy(own, page, state.page_bytes);
      heir.pages[s].push_back(own);
    }
  }
  return ok_status();
}

}  // namespace firstlight::kv
