// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace firstlight::kv {
namespace {

uint64_t hash_of(std::span<const int32_t> tokens) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

}  // namespace

PrefixCache::PrefixCache(StateCache& cache, int64_t snapshot_bytes)
    : cache_(cache),
      snapshot_limit_(snapshot_bytes),
      needs_snapshots_(cache.has_fixed_states()),
      has_windows_(cache.has_windows()) {
  cache_.set_reclaim([this](int64_t bytes) { reclaim(bytes); });
}

PrefixCache::~PrefixCache() {
  cache_.set_reclaim(nullptr);
  reclaim(reclaimable_bytes());
}

PrefixCache::Node& PrefixCache::root(std::string_view salt) {
  if (const auto found = roots_.find(salt); found != roots_.end()) return found->second;
  if (roots_.size() >= most_roots_) {  // salts come from outside: those that hold nothing are forgotten
    std::erase_if(roots_,
                  [](const auto& entry) { return entry.second.children.empty() && entry.second.sequences == 0; });
    most_roots_ = std::max(kLeastRoots, 2 * roots_.size());
  }
  return roots_.try_emplace(std::string(salt)).first->second;
}

PrefixCache::Node* PrefixCache::child(Node& parent, std::span<const int32_t> tokens) const {
  const auto [first, last] = parent.children.equal_range(hash_of(tokens));
  for (auto it = first; it != last; ++it) {
    if (std::equal(tokens.begin(), tokens.end(), it->second->tokens.begin(), it->second->tokens.end())) {
      return it->second.get();
    }
  }
  return nullptr;
}

PrefixCache::Node& PrefixCache::add_child(Node& parent, std::span<const int32_t> tokens, PageBlock pages) {
  auto made = std::make_unique<Node>();
  made->parent = &parent;
  made->depth = parent.depth + 1;
  made->hash = hash_of(tokens);
  made->tokens.assign(tokens.begin(), tokens.end());
  made->pages = std::move(pages);
  Node& node = *made;
  parent.children.emplace(node.hash, std::move(made));
  ++num_blocks_;
  has_grown_ = true;
  update(parent);
  return node;
}

// A node may go when it is no root, nothing hangs on it, and no sequence has come there.
void PrefixCache::update(Node& node) {
  const std::pair key(node.last_used, &node);
  if (node.parent != nullptr && node.children.empty() && node.sequences == 0) {
    leaves_.insert(key);
  } else {
    leaves_.erase(key);
  }
}

void PrefixCache::touch(Node& node) {
  leaves_.erase({node.last_used, &node});
  const bool had = snapshots_.erase({node.last_used, &node}) > 0;
  node.last_used = ++clock_;
  if (had) snapshots_.insert({node.last_used, &node});
  update(node);
}

void PrefixCache::move(SequenceId id, Node& to) {
  Node*& place = places_[id];
  Node* from = std::exchange(place, &to);
  ++to.sequences;
  update(to);
  if (from == nullptr) return;
  --from->sequences;
  update(*from);
}

int64_t PrefixCache::adopt(SequenceId id, std::string_view salt, std::span<const int32_t> tokens) {
  FL_CHECK(!places_.contains(id));
  const auto block = static_cast<size_t>(cache_.block_tokens());
  std::vector<Node*> path;
  Node* node = &root(salt);
  move(id, *node);
  while ((path.size() + 1) * block < tokens.size()) {
    node = child(*node, tokens.subspan(path.size() * block, block));
    if (node == nullptr) break;
    path.push_back(node);
  }
  std::vector<const PageBlock*> blocks;
  for (const Node* step : path) blocks.push_back(&step->pages);
  const auto usable = [&] { return (!needs_snapshots_ || path.back()->snapshot) && cache_.can_adopt(blocks); };
  while (!path.empty() && !usable()) {
    path.pop_back();
    blocks.pop_back();
  }
  if (path.empty()) return 0;
  move(id, *path.back());  // before its pages are asked for: they may take room from others, not from these
  for (Node* step : path) touch(*step);
  adopted_ = path.back();
  const bool given = cache_.adopt(id, blocks, path.back()->snapshot).ok();
  adopted_ = nullptr;
  if (!given) {
    move(id, root(salt));
    return 0;
  }
  return static_cast<int64_t>(path.size() * block);
}

void PrefixCache::publish(SequenceId id, std::string_view salt, std::span<const int32_t> tokens) {
  const auto block = static_cast<size_t>(cache_.block_tokens());
  if (!places_.contains(id)) move(id, root(salt));
  Node* node = places_.at(id);
  while ((node->depth + 1) * block <= tokens.size()) {
    const auto part = tokens.subspan(node->depth * block, block);
    Node* next = child(*node, part);
    const auto index = static_cast<int64_t>(node->depth);
    if (next == nullptr) {
      next = &add_child(*node, part, cache_.keep_block(id, index));
    } else if (has_windows_) {
      cache_.keep_missing(id, index, next->pages);
    }
    node = next;
    touch(*node);
    move(id, *node);
  }
  if (needs_snapshots_ && node->depth > 0 && node->depth * block == tokens.size()) keep_snapshot(id, *node);
}

void PrefixCache::keep_snapshot(SequenceId id, Node& node) {
  if (node.snapshot) return;
  const int64_t bytes = cache_.snapshot_bytes();
  if (bytes > snapshot_limit_) return;
  while (snapshots_used_ + bytes > snapshot_limit_) drop_snapshot(*snapshots_.begin()->second);
  const auto taken = cache_.take_snapshot(id);
  if (!taken.ok()) return;
  node.snapshot = *taken;
  snapshots_.insert({node.last_used, &node});
  snapshots_used_ += bytes;
}

void PrefixCache::drop_snapshot(Node& node) {
  cache_.drop_snapshot(*std::exchange(node.snapshot, std::nullopt));
  snapshots_.erase({node.last_used, &node});
  snapshots_used_ -= cache_.snapshot_bytes();
  prune(&node);
}

void PrefixCache::forget(SequenceId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  Node* node = place->second;
  places_.erase(place);
  has_grown_ = true;  // what it held the windows of
  --node->sequences;
  update(*node);
  prune(node);
}

void PrefixCache::prune(Node* node) {
  while (needs_snapshots_ && node->parent != nullptr && !node->snapshot && node->children.empty() &&
         node->sequences == 0) {
    Node* parent = node->parent;
    remove(*node);
    node = parent;
  }
}

void PrefixCache::remove(Node& leaf) {
  Node& parent = *leaf.parent;
  leaves_.erase({leaf.last_used, &leaf});
  if (leaf.snapshot) {
    snapshots_.erase({leaf.last_used, &leaf});
    snapshots_used_ -= cache_.snapshot_bytes();
    cache_.drop_snapshot(*leaf.snapshot);
  }
  cache_.drop_block(leaf.pages);
  --num_blocks_;
  const auto [first, last] = parent.children.equal_range(leaf.hash);
  parent.children.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second.get() == &leaf; }));
  update(parent);
}

// What windows have passed of blocks that are still needed.
void PrefixCache::strip(Node& root) {
  std::vector<Node*> left = {&root};
  while (!left.empty()) {
    Node* node = left.back();
    left.pop_back();
    if (node->parent != nullptr) cache_.strip_block(node->pages);
    for (auto& [hash, next] : node->children) left.push_back(next.get());
  }
}

// Windowed pages go that no end of a branch sees: no leaf, no place where branches part, none that a sequence has come
// to. Who goes on from a place between finds the shorter prefix whose window is whole.
void PrefixCache::strip_passed(int64_t goal) {
  if (!has_windows_ || !has_grown_) return;
  const auto tokens = static_cast<size_t>(cache_.block_tokens());
  std::vector<Node*> ends;
  for (auto& [salt, root] : roots_) ends.push_back(&root);
  for (size_t i = 0; i < ends.size(); ++i) {  // grows
    for (auto& [hash, child] : ends[i]->children) {
      Node* end = child.get();
      while (end->children.size() == 1 && end->sequences == 0) end = end->children.begin()->second.get();
      ends.push_back(end);
      const auto length = static_cast<int64_t>(end->depth * tokens);
      for (Node* node = end->parent; node != ends[i]; node = node->parent) {
        if (cache_.used_bytes() <= goal) return;
        cache_.strip_passed(node->pages, static_cast<int64_t>(node->depth) - 1, length);
      }
    }
  }
  has_grown_ = false;
}

void PrefixCache::reclaim(int64_t bytes) {
  if (bytes > reclaimable_bytes()) return;
  const int64_t goal = cache_.used_bytes() - bytes;
  strip_passed(goal);
  while (cache_.used_bytes() > goal && !leaves_.empty()) remove(*leaves_.begin()->second);
  while (cache_.used_bytes() > goal && !snapshots_.empty() && snapshots_.begin()->second != adopted_) {
    drop_snapshot(*snapshots_.begin()->second);
  }
  if (cache_.used_bytes() <= goal) return;
  for (auto& [salt, node] : roots_) strip(node);
}

}  // namespace firstlight::kv
