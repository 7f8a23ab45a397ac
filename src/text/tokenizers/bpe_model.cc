// SPDX-License-Identifier: Apache-2.0
// See bpe_model.h. Unknown characters follow the reference library (tokenizers), where a pending unknown token is
// written after the byte tokens that follow it.
#include "text/tokenizers/bpe_model.h"

#include "text/tokenizers/byte_alphabet.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

}  // namespace

void MergeTable::reserve(size_t num_merges) {
  size_t slots = 16;
  while (slots < num_merges * 2) slots *= 2;
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.merged != kNoToken) slots_[slot_of(slot.key)] = slot;
  }
}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  uint64_t mixed = key * 0x9E3779B97F4A7C15u;
  mixed ^= mixed >> 32;
  size_t at = static_cast<size_t>(mixed) & mask;
  while (slots_[at].merged != kNoToken && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t merged, bool keep_first) {
  if (slots_.empty() || num_used_ * 2 >= slots_.size()) reserve(slots_.empty() ? 8 : slots_.size());
  const uint64_t key = pair_key(left, right);
  Slot& slot = slots_[slot_of(key)];
  if (slot.merged == kNoToken) {
    ++num_used_;
  } else if (keep_first) {
    return;
  }
  slot = {key, rank, merged};
}

Merge MergeTable::find(int32_t left, int32_t right) const {
  if (slots_.empty()) return {};
  const Slot& slot = slots_[slot_of(pair_key(left, right))];
  if (slot.merged == kNoToken) return {};
  return {true, slot.rank, slot.merged};
}

BpeModel::BpeModel(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  for (char32_t c = 0; c < short_chars_.size(); ++c) {
    std::string text;
    append_utf8(text, c);
    short_chars_[c] = vocabulary_->find(text);
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_->find(byte_token(static_cast<unsigned char>(byte)));
  }
}

int32_t BpeModel::char_id(std::string_view piece) const {
  const auto first = static_cast<unsigned char>(piece[0]);
  if (piece.size() == 1) return short_chars_[first];
  const uint32_t value = ((first & 0x1Fu) << 6) | (static_cast<unsigned char>(piece[1]) & 0x3Fu);
  if (piece.size() == 2 && value < short_chars_.size()) return short_chars_[value];
  return vocabulary_->find(piece);
}

bool BpeModel::add_bytes(std::string_view piece, uint32_t begin, MergeScratch& scratch) const {
  for (char c : piece) {
    if (byte_ids_[static_cast<unsigned char>(c)] == kNoToken) return false;
  }
  for (char c : piece) scratch.add(byte_ids_[static_cast<unsigned char>(c)], begin++, 1);
  return true;
}

void BpeModel::add_symbols(std::string_view word, MergeScratch& scratch) const {
  const bool decorated = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  uint32_t unk_begin = 0;
  uint32_t unk_length = 0;  // of the pending unknown token, 0: none
  for (size_t pos = 0; pos < word.size();) {
    const uint32_t length = std::min<uint32_t>(utf8_length(word[pos]), static_cast<uint32_t>(word.size() - pos));
    const auto begin = static_cast<uint32_t>(pos);
    std::string_view piece = word.substr(pos, length);
    std::string decorated_piece;
    if (decorated) {
      if (pos > 0) decorated_piece = options_.continuing_subword_prefix;
      decorated_piece += piece;
      if (pos + length == word.size()) decorated_piece += options_.end_of_word_suffix;
      piece = decorated_piece;
    }
    pos += length;
    const int32_t id = decorated ? vocabulary_->find(piece) : char_id(piece);
    if (id != kNoToken) {
      if (unk_length > 0) scratch.add(options_.unk_id, unk_begin, unk_length);
      unk_length = 0;
      scratch.add(id, begin, length);
      continue;
    }
    if (options_.byte_fallback && add_bytes(piece, begin, scratch)) continue;
    if (options_.unk_id == kNoToken) {
      if (options_.unknown_blocks_merges) scratch.add(kNoToken, begin, length);
      continue;
    }
    if (unk_length > 0 && options_.fuse_unk) {
      unk_length += length;
      continue;
    }
    if (unk_length > 0) scratch.add(options_.unk_id, unk_begin, unk_length);
    unk_begin = begin;
    unk_length = length;
  }
  if (unk_length > 0) scratch.add(options_.unk_id, unk_begin, unk_length);
}

void BpeModel::encode(std::string_view word, BlockedIds blocked, MergeScratch& scratch,
                      std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    const int32_t whole = vocabulary_->find(word);
    if (whole != kNoToken && !is_blocked(blocked, whole)) {
      ids.push_back(whole);
      return;
    }
  }
  scratch.clear();
  add_symbols(word, scratch);
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) {
    if (left.id < 0 || right.id < 0) return Merge{};
    const Merge merge = merges_.find(left.id, right.id);
    return merge.found && is_blocked(blocked, merge.id) ? Merge{} : merge;
  });
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.length > 0 && symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace firstlight::text
