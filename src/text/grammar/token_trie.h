// SPDX-License-Identifier: Apache-2.0
// The tokens of a vocabulary by their bytes, as one flat tree: walking it against a matcher finds all tokens that may
// follow, and leaves out at once whatever begins with a byte that may not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace firstlight::text::grammar {

// Nodes in depth-first order: a node's subtree is what lies between it and next().
class TokenTrie {
 public:
  struct Token {
    std::string bytes;  // not empty
    int32_t id;
  };

  TokenTrie() = default;
  explicit TokenTrie(std::vector<Token> tokens);

  size_t num_nodes() const { return byte_.size(); }
  uint8_t byte(size_t node) const { return byte_[node]; }
  uint32_t depth(size_t node) const { return depth_[node]; }  // bytes up to and with this node's, at least 1
  size_t next(size_t node) const { return next_[node]; }      // the first node after its subtree
  // The tokens that end at the node.
  std::span<const int32_t> tokens(size_t node) const {
    return std::span(tokens_).subspan(token_begin_[node], token_begin_[node + 1] - token_begin_[node]);
  }
  uint32_t max_depth() const { return max_depth_; }
  size_t size_bytes() const;

 private:
  std::vector<uint8_t> byte_;
  std::vector<uint16_t> depth_;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> token_begin_;
  std::vector<int32_t> tokens_;
  uint32_t max_depth_ = 0;
};

// Whether the token is a mark, not text: special and control tokens.
bool is_mark_token(const Tokenizer& tokenizer, int32_t id);
// What stands for it in a grammar: 0xFF, which is in no UTF-8, and three bytes of the id.
std::string mark_bytes(int32_t id);

// A tokenizer's tokens as constraints see them: bytes in the middle of a text, and at its start where that differs (a
// leading space is dropped there by many). Control and special tokens are no text: their bytes here are ones that no
// text has, so that they come where a structure (structure.h) asks for them and nowhere else.
class TokenTexts {
 public:
  // Errors: kUnsupported for a tokenizer whose texts are not its tokens' bytes joined.
  static Result<std::shared_ptr<const TokenTexts>> build(const Tokenizer& tokenizer);

  // Of a token that may be part of output; else empty.
  std::string_view bytes(int32_t id, bool at_start) const { return (at_start && differs_ ? start_ : middle_).of(id); }
  const TokenTrie& trie(bool at_start) const { return at_start && differs_ ? start_.trie : middle_.trie; }
  bool differs_at_start() const { return differs_; }
  // Tokens that add nothing at the start (a lone space mark). One of them may come first.
  std::span<const int32_t> empty_at_start() const { return empty_at_start_; }
  // After such a token the next one still counts as the first.
  bool starts_after_empty() const { return starts_after_empty_; }
  bool is_mark(int32_t id) const { return middle_.of(id).starts_with('\xFF'); }
  int32_t vocab_size() const { return vocab_size_; }
  size_t size_bytes() const;

 private:
  struct Table {
    std::string all;
    std::vector<uint32_t> begin;
    TokenTrie trie;
    std::string_view of(int32_t id) const;
    void fill(std::vector<std::string> texts);
  };
  void find_empty(const Tokenizer& tokenizer, const std::vector<std::string>& start,
                  const std::vector<std::string>& middle);

  Table start_, middle_;
  bool differs_ = false;
  bool starts_after_empty_ = false;
  std::vector<int32_t> empty_at_start_;
  int32_t vocab_size_ = 0;
};

}  // namespace firstlight::text::grammar
