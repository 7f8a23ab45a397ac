// SPDX-License-Identifier: Apache-2.0
// Models that look whole pieces of text up in the vocabulary instead of pairs of ids: tiktoken's byte ranks,
// SentencePiece's BPE (pieces with scores) and the RWKV vocabulary (greedy longest match). One word (or stretch of
// text) in, ids out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizers/bpe_model.h"
#include "text/tokenizers/byte_trie.h"
#include "text/tokenizers/merge_symbols.h"
#include "text/tokenizers/vocabulary.h"

namespace firstlight::text {

// tiktoken: symbols are bytes, the pair whose concatenation has the lowest id is merged first.
class RankModel {
 public:
  explicit RankModel(std::shared_ptr<const Vocabulary> vocabulary);
  void encode(std::string_view word, BlockedIds blocked, MergeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::array<int32_t, 256> byte_ids_;
};

// What a piece may be used for; the numbers are those of the SentencePiece protobuf and of GGUF.
enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct ScoredPieces {
  std::vector<float> scores;     // by id
  std::vector<PieceType> types;  // by id
  int32_t unk_id = kNoToken;
  bool byte_fallback = false;
  // SentencePiece: control, unknown and byte pieces never arise from text, unused ones are split again, user-defined
  // ones are never merged with neighbours, and unknown runs give one id. Else llama.cpp's rules: every piece may arise.
  bool strict_types = true;
};

// SentencePiece BPE: symbols are characters, the neighbours whose concatenation has the best score are merged first.
class ScoreModel {
 public:
  ScoreModel(std::shared_ptr<const Vocabulary> vocabulary, ScoredPieces pieces);
  void encode(std::string_view text, BlockedIds blocked, MergeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void encode_stretch(std::string_view text, BlockedIds blocked, MergeScratch& scratch, bool& after_unknown,
                      std::vector<int32_t>& ids) const;
  size_t stretch_end(std::string_view text, size_t begin) const;
  Merge lookup(std::string_view text, const Symbol& left, const Symbol& right, BlockedIds blocked) const;
  void emit_unknown(std::string_view piece, bool& after_unknown, std::vector<int32_t>& ids) const;
  void emit_split(std::string_view piece, std::vector<int32_t>& ids) const;
  bool can_arise(int32_t id) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  ScoredPieces pieces_;
  std::vector<uint32_t> priorities_;  // by id, smaller for better scores
  ByteTrie user_defined_;             // strict_types only
  bool words_are_apart_ =
      true;  // no piece has a U+2581 behind another character, so that no merge crosses such a place
  std::array<int32_t, 256> byte_ids_;
};

// RWKV world: at each place the longest token.
class LongestMatchModel {
 public:
  explicit LongestMatchModel(std::shared_ptr<const Vocabulary> vocabulary);
  void encode(std::string_view text, BlockedIds blocked, std::vector<int32_t>& ids) const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  ByteTrie trie_;
};

}  // namespace firstlight::text
