// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding with a list of merges between token ids (tokenizer.json "BPE", vocab.json + merges.txt, GGUF
// "gpt2"). One word in, ids out; splitting into words and the byte alphabet are the pre-tokenizer's business.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/merge_symbols.h"
#include "text/tokenizers/vocabulary.h"

namespace firstlight::text {

// Ids a model must not produce (control tokens, for text that is not trusted); null when all are allowed.
using BlockedIds = const std::vector<bool>*;
inline bool is_blocked(BlockedIds blocked, int32_t id) {
  return blocked != nullptr && id >= 0 && static_cast<size_t>(id) < blocked->size() &&
         (*blocked)[static_cast<size_t>(id)];
}

// From a pair of ids to the rank and result of its merge.
class MergeTable {
 public:
  void reserve(size_t num_merges);
  // Keeps the first rank when `keep_first`, else the last one.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t merged, bool keep_first);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    uint32_t rank = 0;
    int32_t merged = kNoToken;
  };
  size_t slot_of(uint64_t key) const;
  std::vector<Slot> slots_;
  size_t num_used_ = 0;
};

struct BpeOptions {
  int32_t unk_id = kNoToken;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a token as a whole is taken as it is
  bool unknown_blocks_merges =
      false;  // characters without a token keep their place while merging (llama.cpp), or vanish
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

class BpeModel {
 public:
  BpeModel(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options);

  // Appends the ids of one word of valid UTF-8.
  void encode(std::string_view word, BlockedIds blocked, MergeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  int32_t char_id(std::string_view piece) const;
  void add_symbols(std::string_view word, MergeScratch& scratch) const;
  bool add_bytes(std::string_view piece, uint32_t begin, MergeScratch& scratch) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<int32_t, 0x180> short_chars_;  // ids of the code points below U+0180, where the byte alphabet lives
  std::array<int32_t, 256> byte_ids_;       // ids of <0x00> ... <0xFF>
};

}  // namespace firstlight::text
