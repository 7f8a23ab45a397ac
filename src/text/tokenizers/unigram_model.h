// SPDX-License-Identifier: Apache-2.0
// Unigram language model segmentation: of all ways to cut a text into pieces the one with the highest sum of scores, by
// dynamic programming over byte positions. Serves tokenizer.json "Unigram", SentencePiece unigram files and GGUF "t5".
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/bpe_model.h"
#include "text/tokenizers/byte_trie.h"
#include "text/tokenizers/vocabulary.h"

namespace firstlight::text {

struct UnigramPieces {
  std::vector<double> scores;  // by id
  std::vector<bool> excluded;  // by id: pieces that never arise from text; may be shorter than the vocabulary
  double unk_score = 0;        // of one unknown character
  int32_t unk_id = kNoToken;
  bool byte_fallback = false;
  bool round_to_float = false;     // sums are kept in single precision (SentencePiece), which decides near ties
  double user_defined_factor = 0;  // with user_defined: score = bytes * factor - 0.1
  std::vector<bool> user_defined;
};

class UnigramModel {
 public:
  UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, UnigramPieces pieces);

  // Errors: kInvalidData when a character is unknown and the vocabulary has no unknown token.
  Status encode(std::string_view text, BlockedIds blocked, std::vector<int32_t>& ids) const;

 private:
  struct Node {
    double score = 0;
    int32_t id = kNoToken;
    uint32_t begin = UINT32_MAX;  // of the piece that ends here; UINT32_MAX: not reached
  };

  double score_of(int32_t id, size_t length) const;
  void offer(Node& target, double score, int32_t id, size_t begin) const;
  void emit_unknown(std::string_view piece, std::vector<int32_t>& ids) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  UnigramPieces pieces_;
  ByteTrie trie_;
  std::array<int32_t, 256> byte_ids_;
};

}  // namespace firstlight::text
