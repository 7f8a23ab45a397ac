// SPDX-License-Identifier: Apache-2.0
// The state of all sequences: page pools, one table of pages per sequence and state, nothing about who may have how
// much (that is the engine's). A page holds `page_rows` rows of one state; windowed states give pages back as soon as
// no coming token can see them. A fixed state is one page of one row, zero when the sequence starts; the past is not in
// it, so a sequence that has one goes back to its beginning, or to where a snapshot of it was taken. Whole pages may
// belong to several sequences and to a prefix cache (prefix_cache.h): they are never written again, and go when the
// last one lets go. Not thread-safe: the engine's thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "kv/page_storage.h"
#include "kv/swap_space.h"
#include "ops/state.h"
#include "plan/batch.h"
#include "plan/state_pages.h"

namespace firstlight::kv {

using SequenceId = int32_t;
using SnapshotId = int32_t;

struct StateCacheOptions {
  int64_t page_rows = 128;         // of a log; fewer at a rate: a page is of as many tokens
  int64_t capacity_bytes = 0;      // of all pages together; 0: no limit of its own
  PageStorage* storage = nullptr;  // where pages lie, and it outlives the cache; null: the host's memory
  int64_t step_tokens = 0;         // the most that one extend() adds; bounds what windows need. 0: not known
};

// The pages of some tokens of a sequence, page after page and state after state (fixed states have none). Null: a
// window had passed.
using PageBlock = std::vector<std::byte*>;

// Where a sequence's pages are when they are in no cache (StateCache::save).
struct SavedState {
  int64_t length = 0;
  std::vector<std::vector<SwapSlot>> pages;  // [state][page]
};

class StateCache {
 public:
  // Errors: kUnsupported for kinds of state that have no pages here (shared states).
  static Result<StateCache> create(std::span<const ops::StateDecl> states, const StateCacheOptions& options);

  SequenceId add_sequence();
  void remove_sequence(SequenceId id);

  // Makes room for rows [length, new_length) of every state, `length` being what the sequence holds. Gives back pages
  // that a window has passed. `computed`: only so many of its tokens are, and what the next of them sees stays. Errors:
  // kOutOfMemory with needed and available bytes; the sequence is as before then.
  Status extend(SequenceId id, int64_t new_length, std::optional<int64_t> computed = std::nullopt);
  int64_t length(SequenceId id) const;

  // Drops rows from `length` on. kInvalidArgument when a window has already forgotten rows that would be seen again,
  // and when a fixed state would have to go back to a length that is neither 0 nor its own.
  Status truncate(SequenceId id, int64_t length);

  // A copy of the sequence's fixed states as they are after its `length` tokens, in pages that count as used until it
  // is dropped. `computed`: there is room for more tokens already, and these are after so many. When one is worth its
  // bytes is the engine's affair. Errors: kOutOfMemory.
  Result<SnapshotId> take_snapshot(SequenceId id, std::optional<int64_t> computed = std::nullopt);
  void drop_snapshot(SnapshotId id);
  int64_t snapshot_length(SnapshotId id) const;

  // Takes a sequence to where the snapshot was taken: its fixed states become the copy, rows of logs after it are
  // dropped. The sequence holds these tokens already, as the one that the snapshot is of does; one without rows of logs
  // need not. Errors: kInvalidArgument when rows of a log are missing or a window has passed, kOutOfMemory; the
  // sequence is as before then.
  Status restore(SequenceId id, SnapshotId snapshot);

  // Tokens after which every log of the sequence has filled its last page.
  int64_t block_tokens() const { return block_tokens_; }
  bool has_fixed_states() const;
  int64_t snapshot_bytes() const;

  // Pages of the sequence's tokens [block * block_tokens, (block + 1) * block_tokens), which it holds, kept beside the
  // sequence's own use until drop_block.
  PageBlock keep_block(SequenceId id, int64_t block);
  void drop_block(const PageBlock& block);
  // Lets go of the block's pages that no sequence uses; they are null then.
  void strip_block(PageBlock& block);
  // The same of its pages that windows have passed once a sequence has `length` tokens, `index` being the block's
  // place.
  void strip_passed(PageBlock& block, int64_t index, int64_t length);
  // Keeps the sequence's own pages in place of those that the block has lost.
  void keep_missing(SequenceId id, int64_t index, PageBlock& block);
  bool has_windows() const;

  // Whether a sequence could go on after these blocks: every page that coming tokens see is there.
  bool can_adopt(std::span<const PageBlock* const> blocks) const;

  // Gives a sequence of length 0 the first blocks of another one's tokens, and with fixed states the snapshot taken
  // after them. It shares the pages, which it can_adopt. Errors: kOutOfMemory (of the fixed states); the sequence is
  // empty then.
  Status adopt(SequenceId id, std::span<const PageBlock* const> blocks, std::optional<SnapshotId> snapshot);

  // Gives a sequence of length 0 all that another one holds. They share the pages until one of them writes into the
  // last; fixed states are copied. Errors: kOutOfMemory (of these); the sequence is empty then.
  Status fork(SequenceId id, SequenceId from);

  // Bytes of pages that are kept, and that no sequence uses: room, once they are dropped.
  int64_t unused_bytes() const { return unused_bytes_; }
  // Asked to let go of at least so many bytes when there is no room for something; nothing goes where that is more than
  // there is.
  void set_reclaim(std::function<void(int64_t bytes)> reclaim) { reclaim_ = std::move(reclaim); }

  // Copies a sequence's pages out; it stays as it is. load() fills a sequence of length 0 with them and gives the slots
  // back; drop_saved only gives them back. Errors: kOutOfMemory (swap space, or pages) leave both sides as they were.
  Result<SavedState> save(SequenceId id, SwapSpace& space);
  Status load(SequenceId id, SavedState& saved, SwapSpace& space);
  static void drop_saved(SavedState& saved, SwapSpace& space);

  // Bytes of pages one sequence of that length holds at most, over all states, if it shares none.
  int64_t bytes_for_length(int64_t length) const;
  int64_t used_bytes() const { return used_bytes_; }
  int64_t capacity_bytes() const { return options_.capacity_bytes; }

  // The view of every state for a batch of these sequences, in order; valid until the next call of any member.
  std::span<const plan::StateView> views(std::span<const SequenceId> sequences);

 private:
  using State = plan::StatePages;
  struct Sequence {
    bool live = false;
    int64_t length = 0;
    std::vector<std::vector<std::byte*>> pages;  // [state][page]; null: given back
  };
  struct Snapshot {
    bool live = false;
    int64_t length = 0;
    std::vector<std::byte*> pages;  // one per state; null for logs and before the first token
  };

  struct PageDeleter {
    PageStorage* storage = nullptr;
    size_t bytes = 0;
    void operator()(std::byte* page) const { storage->give(page, bytes); }
  };
  using Page = std::unique_ptr<std::byte, PageDeleter>;

  StateCache() = default;
  std::byte* take_page(size_t bytes);
  void give_page(std::byte* page, size_t bytes);  // one user less; null is none
  void free_page(std::byte* page, size_t bytes);
  void share_page(std::byte* page, size_t bytes);  // one user more
  bool is_shared(const std::byte* page) const;
  bool has_room(int64_t bytes);  // having reclaimed what it takes
  void let_go(std::byte* page, size_t bytes);
  template <typename Block, typename Visit>
  void for_pages(Block& block, const Visit& visit) const;
  bool must_copy_last_page(const State& state, const Sequence& sequence, size_t s) const;
  Status check_cut(const Sequence& sequence, int64_t length) const;
  void cut(Sequence& sequence, int64_t length);
  const Snapshot& snapshot(SnapshotId id) const;
  static int64_t first_needed_page(const State& state, int64_t length);
  static bool is_needed(const State& state, int64_t first_needed, int64_t page) {
    return page >= first_needed || page < state.kept_pages;
  }
  const Sequence& sequence(SequenceId id) const;
  Sequence& sequence(SequenceId id);

  StateCacheOptions options_;
  std::vector<State> states_;
  std::vector<Sequence> sequences_;
  std::vector<Snapshot> snapshots_;
  std::vector<std::pair<size_t, std::vector<std::byte*>>> free_;  // by page size
  std::deque<Page> owned_;
  struct Sharing {
    int32_t users = 0;  // sequences and snapshots
    bool kept = false;
  };
  std::unordered_map<const std::byte*, Sharing> shared_;  // pages that are kept, or have more than one user
  int64_t block_tokens_ = 1;
  int64_t used_bytes_ = 0;
  int64_t unused_bytes_ = 0;
  std::function<void(int64_t bytes)> reclaim_;
  std::vector<std::vector<std::span<std::byte* const>>> view_pages_;
  std::vector<plan::StateView> views_;
};

}  // namespace firstlight::kv
