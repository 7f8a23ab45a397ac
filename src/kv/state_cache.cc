// SPDX-License-Identifier: Apache-2.0
#include "kv/state_cache.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace firstlight::kv {

Result<StateCache> StateCache::create(std::span<const ops::StateDecl> states, const StateCacheOptions& options) {
  FL_CHECK(options.page_rows > 0);
  StateCache cache;
  cache.options_ = options;
  if (cache.options_.storage == nullptr) cache.options_.storage = &host_pages();
  for (const ops::StateDecl& decl : states) {
    State state = FL_TRY(plan::pages_of(decl, options.page_rows));
    if (!state.fixed) cache.block_tokens_ = std::lcm(cache.block_tokens_, state.page_rows * state.rate);
    cache.states_.push_back(std::move(state));
  }
  return cache;
}

const StateCache::Sequence& StateCache::sequence(SequenceId id) const {
  FL_CHECK(id >= 0 && static_cast<size_t>(id) < sequences_.size() && sequences_[static_cast<size_t>(id)].live);
  return sequences_[static_cast<size_t>(id)];
}

StateCache::Sequence& StateCache::sequence(SequenceId id) {
  return const_cast<Sequence&>(static_cast<const StateCache*>(this)->sequence(id));
}

SequenceId StateCache::add_sequence() {
  auto place = std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& other) { return !other.live; });
  if (place == sequences_.end()) place = sequences_.insert(place, Sequence{});
  place->live = true;
  place->length = 0;
  place->pages.assign(states_.size(), {});
  return static_cast<SequenceId>(place - sequences_.begin());
}

void StateCache::remove_sequence(SequenceId id) {
  Sequence& gone = sequence(id);
  for (size_t s = 0; s < states_.size(); ++s) {
    for (std::byte* page : gone.pages[s]) give_page(page, states_[s].page_bytes);
  }
  gone = Sequence{};
}

std::byte* StateCache::take_page(size_t bytes) {
  for (auto& [size, pages] : free_) {
    if (size == bytes && !pages.empty()) {
      std::byte* page = pages.back();
      pages.pop_back();
      used_bytes_ += static_cast<int64_t>(bytes);
      return page;
    }
  }
  std::byte* page = options_.storage->take(bytes);
  if (page == nullptr) return nullptr;
  owned_.emplace_back(page, PageDeleter{options_.storage, bytes});
  used_bytes_ += static_cast<int64_t>(bytes);
  return page;
}

void StateCache::give_page(std::byte* page, size_t bytes) {
  if (page == nullptr) return;
  if (const auto found = shared_.find(page); found != shared_.end()) {
    Sharing& sharing = found->second;
    --sharing.users;
    if (sharing.users == 0 && sharing.kept) unused_bytes_ += static_cast<int64_t>(bytes);
    if (sharing.users > 0 || sharing.kept) return;
    shared_.erase(found);
  }
  free_page(page, bytes);
}

void StateCache::free_page(std::byte* page, size_t bytes) {
  used_bytes_ -= static_cast<int64_t>(bytes);
  for (auto& [size, pages] : free_) {
    if (size == bytes) {
      pages.push_back(page);
      return;
    }
  }
  free_.emplace_back(bytes, std::vector<std::byte*>{page});
}

bool StateCache::has_room(int64_t bytes) {
  const auto missing = [&] { return used_bytes_ + bytes - options_.capacity_bytes; };
  if (options_.capacity_bytes > 0 && missing() > 0 && reclaim_) reclaim_(missing());
  return options_.capacity_bytes <= 0 || missing() <= 0;
}

// Pages in front of it hold only rows that the token at `length` and all after it can not see.
int64_t StateCache::first_needed_page(const State& state, int64_t length) {
  if (state.window <= 0) return 0;
  return std::max<int64_t>(0, length - state.window + 1) / state.page_rows;
}

int64_t StateCache::length(SequenceId id) const { return sequence(id).length; }

// The next row goes into a page that others read too.
bool StateCache::must_copy_last_page(const State& state, const Sequence& sequence, size_t s) const {
  const int64_t rows = sequence.length / state.rate;
  return !state.fixed && rows % state.page_rows != 0 && is_shared(sequence.pages[s].back());
}

Status StateCache::extend(SequenceId id, int64_t new_length, std::optional<int64_t> computed) {
  Sequence& grown = sequence(id);
  FL_CHECK(new_length >= grown.length);
  int64_t needed_bytes = 0;
  for (size_t s = 0; s < states_.size(); ++s) {
    const auto pages_wanted = static_cast<size_t>(states_[s].pages_for(new_length));
    const size_t have = grown.pages[s].size();
    size_t taken = pages_wanted > have ? pages_wanted - have : 0;
    if (new_length > grown.length && must_copy_last_page(states_[s], grown, s)) ++taken;
    needed_bytes += static_cast<int64_t>(taken * states_[s].page_bytes);
    const auto passed = static_cast<size_t>(first_needed_page(states_[s], computed.value_or(grown.length)));
    for (auto p = static_cast<size_t>(states_[s].kept_pages); p < std::min(passed, have); ++p) {
      give_page(std::exchange(grown.pages[s][p], nullptr), states_[s].page_bytes);
    }
  }
  const auto refuse = [&] {
    return out_of_memory("state for " + std::to_string(new_length) + " tokens: " + std::to_string(needed_bytes) +
                         " bytes needed, " +
                         std::to_string(std::max<int64_t>(0, options_.capacity_bytes - used_bytes_)) + " of " +
                         std::to_string(options_.capacity_bytes) + " available");
  };
  if (!has_room(needed_bytes)) return refuse();
  for (size_t s = 0; new_length > grown.length && s < states_.size(); ++s) {
    if (!must_copy_last_page(states_[s], grown, s)) continue;
    std::byte* own = take_page(states_[s].page_bytes);
    if (own == nullptr) return refuse();
    options_.storage->copy(own, grown.pages[s].back(), states_[s].page_bytes);
    give_page(std::exchange(grown.pages[s].back(), own), states_[s].page_bytes);
  }
  for (size_t s = 0; s < states_.size(); ++s) {
    const auto pages_wanted = static_cast<size_t>(states_[s].pages_for(new_length));
    while (grown.pages[s].size() < pages_wanted) {
      std::byte* page = take_page(states_[s].page_bytes);
      if (page == nullptr) {
        FL_TRY(truncate(id, grown.length));
        return refuse();
      }
      if (states_[s].fixed) options_.storage->zero(page, states_[s].page_bytes);  // it may have been another sequence's
      grown.pages[s].push_back(page);
    }
  }
  grown.length = new_length;
  return ok_status();
}

// Whether every row that the token at `length` sees is still there.
Status StateCache::check_cut(const Sequence& sequence, int64_t length) const {
  for (size_t s = 0; s < states_.size(); ++s) {
    const auto pages_kept = static_cast<size_t>(states_[s].pages_for(length));
    const int64_t first = first_needed_page(states_[s], length);
    for (size_t p = 0; p < std::min(pages_kept, sequence.pages[s].size()); ++p) {
      if (sequence.pages[s][p] == nullptr && is_needed(states_[s], first, static_cast<int64_t>(p))) {
        return invalid_argument("state cannot go back to " + std::to_string(length) + " tokens: its window has passed");
      }
    }
  }
  return ok_status();
}

void StateCache::cut(Sequence& sequence, int64_t length) {
  for (size_t s = 0; s < states_.size(); ++s) {
    const auto pages_kept = static_cast<size_t>(states_[s].pages_for(length));
    while (sequence.pages[s].size() > pages_kept) {
      give_page(sequence.pages[s].back(), states_[s].page_bytes);
      sequence.pages[s].pop_back();
    }
  }
  sequence.length = length;
}

Status StateCache::truncate(SequenceId id, int64_t length) {
  Sequence& shorter = sequence(id);
  FL_CHECK(length >= 0 && length <= shorter.length);
  for (const State& state : states_) {
    if (!state.fixed || length == 0 || length == shorter.length) continue;
    return invalid_argument("state '" + state.name + "' cannot go back from " + std::to_string(shorter.length) +
                            " to " + std::to_string(length) + " tokens: it does not keep its past");
  }
  FL_TRY(check_cut(shorter, length));
  cut(shorter, length);
  return ok_status();
}

const StateCache::Snapshot& StateCache::snapshot(SnapshotId id) const {
  FL_CHECK(id >= 0 && static_cast<size_t>(id) < snapshots_.size() && snapshots_[static_cast<size_t>(id)].live);
  return snapshots_[static_cast<size_t>(id)];
}

int64_t StateCache::snapshot_length(SnapshotId id) const { return snapshot(id).length; }

Result<SnapshotId> StateCache::take_snapshot(SequenceId id, std::optional<int64_t> computed) {
  const Sequence& from = sequence(id);
  auto place = std::find_if(snapshots_.begin(), snapshots_.end(), [](const Snapshot& other) { return !other.live; });
  if (place == snapshots_.end()) place = snapshots_.insert(place, Snapshot{});
  const auto taken = static_cast<SnapshotId>(place - snapshots_.begin());
  *place = {.live = true,
            .length = computed.value_or(from.length),
            .pages = std::vector<std::byte*>(states_.size(), nullptr)};
  for (size_t s = 0; s < states_.size(); ++s) {
    if (!states_[s].fixed || from.pages[s].empty()) continue;
    const auto bytes = static_cast<int64_t>(states_[s].page_bytes);
    place->pages[s] = has_room(bytes) ? take_page(states_[s].page_bytes) : nullptr;
    if (place->pages[s] == nullptr) {
      drop_snapshot(taken);
      return out_of_memory("a snapshot of state '" + states_[s].name + "': " + std::to_string(bytes) +
                           " bytes needed, " + std::to_string(used_bytes_) + " of " +
                           std::to_string(options_.capacity_bytes) + " in use");
    }
    options_.storage->copy(place->pages[s], from.pages[s][0], states_[s].page_bytes);
  }
  return taken;
}

void StateCache::drop_snapshot(SnapshotId id) {
  snapshot(id);
  Snapshot& gone = snapshots_[static_cast<size_t>(id)];
  for (size_t s = 0; s < states_.size(); ++s) give_page(gone.pages[s], states_[s].page_bytes);
  gone = {};
}

Status StateCache::restore(SequenceId id, SnapshotId from) {
  Sequence& back = sequence(id);
  const Snapshot& kept = snapshot(from);
  if (back.length < kept.length) {
    for (const State& state : states_) {
      if (state.fixed) continue;
      return invalid_argument("state '" + state.name + "' holds " + std::to_string(back.length) +
                              " tokens of the snapshot's " + std::to_string(kept.length));
    }
    FL_TRY(extend(id, kept.length));
  }
  FL_TRY(check_cut(back, kept.length));
  cut(back, kept.length);
  for (size_t s = 0; s < states_.size(); ++s) {
    if (kept.pages[s] != nullptr) options_.storage->copy(back.pages[s][0], kept.pages[s], states_[s].page_bytes);
  }
  return ok_status();
}

int64_t StateCache::bytes_for_length(int64_t length) const {
  int64_t bytes = 0;
  for (const State& state : states_) bytes += state.bytes_for(length, options_.step_tokens);
  return bytes;
}

std::span<const plan::StateView> StateCache::views(std::span<const SequenceId> ids) {
  view_pages_.resize(states_.size());
  views_.clear();
  for (size_t s = 0; s < states_.size(); ++s) {
    view_pages_[s].clear();
    for (const SequenceId id : ids) view_pages_[s].emplace_back(sequence(id).pages[s]);
    views_.push_back({.page_rows = states_[s].page_rows, .components = states_[s].components, .pages = view_pages_[s]});
  }
  return views_;
}

}  // namespace firstlight::kv
