// SPDX-License-Identifier: Apache-2.0
// A trie over bytes: all keys that begin at a place in a text. Used for added tokens, Unigram lattices and the RWKV
// vocabulary. Built from a list of keys, then read-only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace firstlight::text {

class ByteTrie {
 public:
  struct Key {
    std::string_view bytes;
    int32_t value;  // >= 0
  };

  ByteTrie() = default;
  // Empty keys are left out; of equal keys the last one counts.
  explicit ByteTrie(std::vector<Key> keys);

  bool empty() const { return nodes_.empty(); }

  struct Match {
    size_t length = 0;  // bytes; 0 when nothing matched
    int32_t value = -1;
  };

  // The longest key that begins at `pos`.
  Match longest(std::string_view text, size_t pos) const;

  // Calls `visit(length, value)` for each key that begins at `pos`, shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, size_t pos, Visit visit) const {
    int32_t node = nodes_.empty() ? -1 : 0;
    for (size_t i = pos; node >= 0 && i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node >= 0 && nodes_[static_cast<size_t>(node)].value >= 0) {
        visit(i + 1 - pos, nodes_[static_cast<size_t>(node)].value);
      }
    }
  }

  // Whether some key begins with this byte (a quick test for skipping).
  bool can_begin(char byte) const { return !root_.empty() && root_[static_cast<unsigned char>(byte)] >= 0; }

 private:
  struct Node {
    int32_t value = -1;
    uint32_t first_edge = 0;
    uint32_t num_edges = 0;
  };

  int32_t child(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // edges of a node are neighbours, sorted by label
  std::vector<int32_t> targets_;
  std::vector<int32_t> root_;  // children of the root by byte
};

}  // namespace firstlight::text
