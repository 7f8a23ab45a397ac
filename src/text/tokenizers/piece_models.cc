// SPDX-License-Identifier: Apache-2.0
// See piece_models.h.
#include "text/tokenizers/piece_models.h"

#include <bit>
#include <cmath>
#include <utility>

#include "text/tokenizers/byte_alphabet.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

// Order-reversing map from scores to integers: the better the score, the smaller the result. NaN counts as the worst.
uint32_t priority_of(float score) {
  if (std::isnan(score)) return UINT32_MAX;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

constexpr std::string_view kSpace = "\xE2\x96\x81";

bool ends_in_space(std::string_view text) { return text.ends_with(kSpace); }

// Whether a U+2581 stands behind another character.
bool has_inner_space(std::string_view piece) {
  for (size_t at = piece.find(kSpace); at != std::string_view::npos; at = piece.find(kSpace, at + kSpace.size())) {
    if (at > 0 && !ends_in_space(piece.substr(0, at))) return true;
  }
  return false;
}

std::string_view both(std::string_view text, const Symbol& left, const Symbol& right) {
  return text.substr(left.begin, left.length + right.length);
}

}  // namespace

RankModel::RankModel(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(static_cast<unsigned char>(byte));
    byte_ids_[byte] = vocabulary_->find(std::string_view(&c, 1));
  }
}

void RankModel::encode(std::string_view word, BlockedIds blocked, MergeScratch& scratch,
                       std::vector<int32_t>& ids) const {
  const int32_t whole = vocabulary_->find(word);
  if (whole != kNoToken && !is_blocked(blocked, whole)) {
    ids.push_back(whole);
    return;
  }
  scratch.clear();
  for (size_t i = 0; i < word.size(); ++i) {
    scratch.add(byte_ids_[static_cast<unsigned char>(word[i])], static_cast<uint32_t>(i), 1);
  }
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) {
    const int32_t id = vocabulary_->find(both(word, left, right));
    if (id == kNoToken || is_blocked(blocked, id)) return Merge{};
    return Merge{true, static_cast<uint32_t>(id), id};
  });
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.length > 0 && symbol.id != kNoToken) ids.push_back(symbol.id);
  }
}

ScoreModel::ScoreModel(std::shared_ptr<const Vocabulary> vocabulary, ScoredPieces pieces)
    : vocabulary_(std::move(vocabulary)), pieces_(std::move(pieces)) {
  priorities_.reserve(pieces_.scores.size());
  for (float score : pieces_.scores) priorities_.push_back(priority_of(score));
  const auto num_ids = static_cast<size_t>(vocabulary_->end_id());
  priorities_.resize(num_ids, UINT32_MAX);
  pieces_.types.resize(num_ids, PieceType::kNormal);
  for (int32_t id = 0; id < vocabulary_->end_id() && words_are_apart_; ++id) {
    words_are_apart_ = !has_inner_space(vocabulary_->text(id));
  }
  if (pieces_.strict_types) {
    std::vector<ByteTrie::Key> keys;
    for (int32_t id = 0; id < vocabulary_->end_id(); ++id) {
      if (pieces_.types[static_cast<size_t>(id)] == PieceType::kUserDefined)
        keys.push_back({vocabulary_->text(id), id});
    }
    user_defined_ = ByteTrie(std::move(keys));
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_->find(byte_token(static_cast<unsigned char>(byte)));
  }
}

bool ScoreModel::can_arise(int32_t id) const {
  if (!pieces_.strict_types) return true;
  const PieceType type = pieces_.types[static_cast<size_t>(id)];
  return type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused;
}

Merge ScoreModel::lookup(std::string_view text, const Symbol& left, const Symbol& right, BlockedIds blocked) const {
  constexpr int32_t kFrozen = -2;
  if (left.id == kFrozen || right.id == kFrozen) return {};
  const int32_t id = vocabulary_->find(both(text, left, right));
  if (id == kNoToken || !can_arise(id) || is_blocked(blocked, id)) return {};
  return {true, priorities_[static_cast<size_t>(id)], id};
}

void ScoreModel::emit_unknown(std::string_view piece, bool& after_unknown, std::vector<int32_t>& ids) const {
  bool all_bytes = pieces_.byte_fallback;
  for (char c : piece) all_bytes = all_bytes && byte_ids_[static_cast<unsigned char>(c)] != kNoToken;
  if (all_bytes) {
    for (char c : piece) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    after_unknown = false;
    return;
  }
  if (pieces_.unk_id != kNoToken && !(after_unknown && pieces_.strict_types)) ids.push_back(pieces_.unk_id);
  after_unknown = true;
}

// An unused piece is written as the two pieces it was merged from: the best split into pieces that may arise, found by
// merging its characters again without it.
void ScoreModel::emit_split(std::string_view piece, std::vector<int32_t>& ids) const {
  MergeScratch scratch;
  for (size_t pos = 0; pos < piece.size();) {
    const size_t length = std::min<size_t>(utf8_length(piece[pos]), piece.size() - pos);
    scratch.add(vocabulary_->find(piece.substr(pos, length)), static_cast<uint32_t>(pos),
                static_cast<uint32_t>(length));
    pos += length;
  }
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) {
    const Merge merge = lookup(piece, left, right, nullptr);
    const bool unused = merge.found && pieces_.types[static_cast<size_t>(merge.id)] == PieceType::kUnused;
    return unused ? Merge{} : merge;
  });
  bool after_unknown = false;
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.length == 0) continue;
    if (symbol.id >= 0 && can_arise(symbol.id)) {
      ids.push_back(symbol.id);
      after_unknown = false;
    } else {
      emit_unknown(piece.substr(symbol.begin, symbol.length), after_unknown, ids);
    }
  }
}

// Merges never join what lies on the two sides of a place between words, so each word is merged by itself: the same ids
// as merging the whole text, with a heap that stays small.
size_t ScoreModel::stretch_end(std::string_view text, size_t begin) const {
  if (!words_are_apart_) return text.size();
  for (size_t at = text.find(kSpace, begin + 1); at != std::string_view::npos;
       at = text.find(kSpace, at + kSpace.size())) {
    if (!ends_in_space(text.substr(begin, at - begin))) return at;
  }
  return text.size();
}

void ScoreModel::encode(std::string_view text, BlockedIds blocked, MergeScratch& scratch,
                        std::vector<int32_t>& ids) const {
  bool after_unknown = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = stretch_end(text, begin);
    encode_stretch(text.substr(begin, end - begin), blocked, scratch, after_unknown, ids);
    begin = end;
  }
}

void ScoreModel::encode_stretch(std::string_view text, BlockedIds blocked, MergeScratch& scratch, bool& after_unknown,
                                std::vector<int32_t>& ids) const {
  constexpr int32_t kFrozen = -2;
  scratch.clear();
  for (size_t pos = 0; pos < text.size();) {
    const ByteTrie::Match match = user_defined_.longest(text, pos);
    const size_t char_length = std::min<size_t>(utf8_length(text[pos]), text.size() - pos);
    const size_t length = match.length > 0 ? match.length : char_length;
    const int32_t id = match.length > 0 ? kFrozen : vocabulary_->find(text.substr(pos, length));
    scratch.add(id, static_cast<uint32_t>(pos), static_cast<uint32_t>(length));
    pos += length;
  }
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) { return lookup(text, left, right, blocked); });
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.length == 0) continue;
    const std::string_view piece = text.substr(symbol.begin, symbol.length);
    const int32_t id = symbol.id == kFrozen ? vocabulary_->find(piece) : symbol.id;
    if (id == kNoToken || !can_arise(id) || is_blocked(blocked, id)) {
      emit_unknown(piece, after_unknown, ids);
      continue;
    }
    after_unknown = false;
    if (pieces_.strict_types && pieces_.types[static_cast<size_t>(id)] == PieceType::kUnused) {
      emit_split(piece, ids);
    } else {
      ids.push_back(id);
    }
  }
}

LongestMatchModel::LongestMatchModel(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {
  std::vector<ByteTrie::Key> keys;
  for (int32_t id = 0; id < vocabulary_->end_id(); ++id) {
    if (vocabulary_->contains(id)) keys.push_back({vocabulary_->text(id), id});
  }
  trie_ = ByteTrie(std::move(keys));
}

void LongestMatchModel::encode(std::string_view text, BlockedIds blocked, std::vector<int32_t>& ids) const {
  for (size_t pos = 0; pos < text.size();) {
    ByteTrie::Match best;
    trie_.for_each_prefix(text, pos, [&](size_t length, int32_t id) {
      if (!is_blocked(blocked, id)) best = {length, id};
    });
    if (best.length > 0) ids.push_back(best.value);
    pos += best.length > 0 ? best.length : 1;
  }
}

}  // namespace firstlight::text
