// SPDX-License-Identifier: Apache-2.0
// Prompts' beginnings that were computed before: a tree of blocks of tokens, each with its pages, so that a sequence
// that begins with the same tokens takes them instead of computing them (as PagedAttention and RadixAttention do:
// arXiv:2309.06180, arXiv:2312.07104). With fixed states a sequence can go on only where a snapshot of them was taken.
// What was used longest ago goes first when room is wanted. Not thread-safe: the engine's thread owns it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/state_cache.h"

namespace firstlight::kv {

class PrefixCache {
 public:
  // `cache` outlives it, and asks it for room from now on. Snapshots take at most `snapshot_bytes`.
  PrefixCache(StateCache& cache, int64_t snapshot_bytes);
  ~PrefixCache();

  // Gives a sequence of length 0 the longest known beginning of `tokens`; returns its length, which is less than
  // theirs. `salt`: whatever else the state depends on; only sequences of the same salt share. Once per sequence.
  int64_t adopt(SequenceId id, std::string_view salt, std::span<const int32_t> tokens);

  // The sequence has computed `tokens`, of which those told before are a beginning: its new whole blocks become known.
  // A block that another sequence has made known stays that one's. With fixed states the end of the last block can be
  // gone on from if `tokens` end there.
  void publish(SequenceId id, std::string_view salt, std::span<const int32_t> tokens);

  // The sequence ends, or its state does. Before StateCache::remove_sequence.
  void forget(SequenceId id);

  // Lets go of at least `bytes`, or of nothing where there is less.
  void reclaim(int64_t bytes);
  int64_t reclaimable_bytes() const { return cache_.unused_bytes() + snapshots_used_; }
  int64_t num_blocks() const { return num_blocks_; }
  size_t num_salts() const { return roots_.size(); }

 private:
  struct Node {
    Node* parent = nullptr;
    size_t depth = 0;   // blocks from the beginning to its end
    uint64_t hash = 0;  // of its tokens
    std::vector<int32_t> tokens;
    PageBlock pages;
    std::optional<SnapshotId> snapshot;
    int64_t sequences = 0;   // that have come so far, and no further
    uint64_t last_used = 0;  // of adopt and publish; larger is later
    std::unordered_multimap<uint64_t, std::unique_ptr<Node>> children;
  };
  using ByUse = std::set<std::pair<uint64_t, Node*>>;

  Node& root(std::string_view salt);
  Node* child(Node& parent, std::span<const int32_t> tokens) const;
  Node& add_child(Node& parent, std::span<const int32_t> tokens, PageBlock pages);
  void move(SequenceId id, Node& to);
  void touch(Node& node);
  void update(Node& node);  // whether it may go
  void remove(Node& leaf);
  void prune(Node* node);  // ends of branches that nothing can go on from
  void keep_snapshot(SequenceId id, Node& node);
  void drop_snapshot(Node& node);
  void strip(Node& root);
  void strip_passed(int64_t goal);

  StateCache& cache_;
  const int64_t snapshot_limit_;
  const bool needs_snapshots_;
  const bool has_windows_;
  bool has_grown_ = false;  // since windows were last looked through
  static constexpr size_t kLeastRoots = 64;
  std::map<std::string, Node, std::less<>> roots_;  // by salt
  size_t most_roots_ = kLeastRoots;                 // before those that hold nothing are looked for
  std::unordered_map<SequenceId, Node*> places_;
  ByUse leaves_;                   // without sequences: they may go
  ByUse snapshots_;                // nodes that have one
  const Node* adopted_ = nullptr;  // just now: its snapshot must stay (it is the one used last)
  int64_t snapshots_used_ = 0;
  int64_t num_blocks_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace firstlight::kv
