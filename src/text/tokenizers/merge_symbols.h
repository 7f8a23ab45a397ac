// SPDX-License-Identifier: Apache-2.0
// The merging loop shared by all byte-pair-like models: of all neighbouring symbols the pair with the smallest
// priority, the leftmost first among equals, becomes one symbol, until no pair is left. O(n log n) in the number of
// symbols.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace firstlight::text {

struct Symbol {
  int32_t id = -1;      // the model's business
  uint32_t begin = 0;   // bytes, in the word
  uint32_t length = 0;  // bytes; 0 once merged into its left neighbour
  int32_t prev = -1;
  int32_t next = -1;
};

struct Merge {
  bool found = false;
  uint32_t priority = 0;
  int32_t id = -1;  // of the merged symbol
};

// Working memory, reused from word to word.
struct MergeScratch {
  struct Entry {
    uint64_t key;     // priority, then position
    uint32_t length;  // of both symbols at the time; symbols only grow, so another length means that the entry is stale
    int32_t id;
    bool operator<(const Entry& other) const { return key > other.key; }
  };
  std::vector<Symbol> symbols;
  std::vector<Entry> heap;

  void clear() {
    symbols.clear();
    heap.clear();
  }
  void add(int32_t id, uint32_t begin, uint32_t length) {
    const auto index = static_cast<int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({id, begin, length, index - 1, -1});
  }
};

// Merges scratch.symbols in place; what is left are the symbols with a length over 0. `lookup(left, right)` gives a
// Merge and must depend on nothing but the two symbols.
template <typename Lookup>
void merge_symbols(MergeScratch& scratch, Lookup lookup) {
  std::vector<Symbol>& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto offer = [&](int32_t left) {
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const Symbol& b = symbols[static_cast<size_t>(a.next)];
    const Merge merge = lookup(a, b);
    if (!merge.found) return false;
    heap.push_back({(uint64_t{merge.priority} << 32) | static_cast<uint32_t>(left), a.length + b.length, merge.id});
    return true;
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    const MergeScratch::Entry top = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    const auto at = static_cast<int32_t>(top.key & 0xFFFFFFFF);
    Symbol& left = symbols[static_cast<size_t>(at)];
    if (left.length == 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (left.length + right.length != top.length) continue;
    left.length = top.length;
    left.id = top.id;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].prev = at;
    if (left.prev >= 0 && offer(left.prev)) std::push_heap(heap.begin(), heap.end());
    if (left.next >= 0 && offer(at)) std::push_heap(heap.begin(), heap.end());
  }
}

}  // namespace firstlight::text
