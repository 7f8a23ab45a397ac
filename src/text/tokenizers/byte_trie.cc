// SPDX-License-Identifier: Apache-2.0
// See byte_trie.h. Nodes are made breadth first over the sorted keys, so that building needs no recursion.
#include "text/tokenizers/byte_trie.h"

#include <algorithm>

namespace firstlight::text {

ByteTrie::ByteTrie(std::vector<Key> keys) {
  std::erase_if(keys, [](const Key& key) { return key.bytes.empty(); });
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.bytes < b.bytes; });
  if (keys.empty()) return;
  struct Work {
    size_t begin, end, depth, node;
  };
  std::vector<Work> work = {{0, keys.size(), 0, 0}};
  nodes_.emplace_back();
  for (size_t w = 0; w < work.size(); ++w) {
    const Work job = work[w];
    size_t at = job.begin;
    for (; at < job.end && keys[at].bytes.size() == job.depth; ++at) nodes_[job.node].value = keys[at].value;
    nodes_[job.node].first_edge = static_cast<uint32_t>(labels_.size());
    while (at < job.end) {
      const char label = keys[at].bytes[job.depth];
      size_t next = at;
      while (next < job.end && keys[next].bytes[job.depth] == label) ++next;
      labels_.push_back(static_cast<unsigned char>(label));
      targets_.push_back(static_cast<int32_t>(nodes_.size()));
      work.push_back({at, next, job.depth + 1, nodes_.size()});
      nodes_.emplace_back();
      at = next;
    }
    nodes_[job.node].num_edges = static_cast<uint32_t>(labels_.size()) - nodes_[job.node].first_edge;
  }
  root_.assign(256, -1);
  for (uint32_t e = 0; e < nodes_[0].num_edges; ++e) root_[labels_[e]] = targets_[e];
}

int32_t ByteTrie::child(int32_t node, unsigned char byte) const {
  if (node == 0) return root_[byte];
  const Node& from = nodes_[static_cast<size_t>(node)];
  const unsigned char* begin = labels_.data() + from.first_edge;
  const unsigned char* end = begin + from.num_edges;
  const unsigned char* found = std::lower_bound(begin, end, byte);
  if (found == end || *found != byte) return -1;
  return targets_[static_cast<size_t>(found - labels_.data())];
}

ByteTrie::Match ByteTrie::longest(std::string_view text, size_t pos) const {
  Match best;
  for_each_prefix(text, pos, [&best](size_t length, int32_t value) { best = {length, value}; });
  return best;
}

}  // namespace firstlight::text
