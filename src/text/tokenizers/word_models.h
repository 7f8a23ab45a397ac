// SPDX-License-Identifier: Apache-2.0
// Models that take words apart greedily, or not at all: WordPiece (tokenizer.json, GGUF "bert") and WordLevel.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/bpe_model.h"
#include "text/tokenizers/vocabulary.h"

namespace firstlight::text {

struct WordPieceOptions {
  std::string word_prefix;               // in front of a word's first piece ("▁" in GGUF files)
  std::string continuing_prefix = "##";  // in front of its other pieces
  size_t max_chars = 100;                // longer words are unknown
  int32_t unk_id = kNoToken;
};

// From left to right the longest piece; a word that does not come out even is one unknown token.
class WordPieceModel {
 public:
  WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, WordPieceOptions options);
  // Errors: kInvalidData when the word is unknown and there is no unknown token.
  Status encode(std::string_view word, BlockedIds blocked, std::vector<int32_t>& ids) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  WordPieceOptions options_;
};

class WordLevelModel {
 public:
  WordLevelModel(std::shared_ptr<const Vocabulary> vocabulary, int32_t unk_id);
  // Errors: as WordPieceModel.
  Status encode(std::string_view word, BlockedIds blocked, std::vector<int32_t>& ids) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  int32_t unk_id_;
};

}  // namespace firstlight::text
