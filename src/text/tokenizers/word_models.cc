// SPDX-License-Identifier: Apache-2.0
// See word_models.h.
#include "text/tokenizers/word_models.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace firstlight::text {
namespace {

Status push_unknown(int32_t unk_id, std::string_view word, std::vector<int32_t>& ids) {
  if (unk_id == kNoToken) {
    return invalid_data("the word '" + std::string(word.substr(0, 64)) +
                        "' is no token, and the vocabulary has no unknown token");
  }
  ids.push_back(unk_id);
  return ok_status();
}

size_t count_chars(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

WordPieceModel::WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {}

Status WordPieceModel::encode(std::string_view word, BlockedIds blocked, std::vector<int32_t>& ids) const {
  if (count_chars(word) > options_.max_chars) return push_unknown(options_.unk_id, word, ids);
  const size_t begin_size = ids.size();
  std::string candidate;
  for (size_t begin = 0; begin < word.size();) {
    const std::string& prefix = begin == 0 ? options_.word_prefix : options_.continuing_prefix;
    const size_t longest = vocabulary_->longest_bytes();
    size_t end = std::min(word.size(), begin + (longest > prefix.size() ? longest - prefix.size() : 0));
    while (end < word.size() && end > begin && (word[end] & 0xC0) == 0x80) --end;
    int32_t id = kNoToken;
    // A text that itself has the mark of a word's first piece must not reach such pieces from the middle of a word.
    const bool forged =
        begin > 0 && !options_.word_prefix.empty() && word.substr(begin).starts_with(options_.word_prefix);
    if (forged) end = begin;
    while (end > begin) {
      candidate = prefix;
      candidate.append(word, begin, end - begin);
      id = vocabulary_->find(candidate);
      if (id != kNoToken && !is_blocked(blocked, id)) break;
      id = kNoToken;
      do {
        --end;
      } while (end > begin && (word[end] & 0xC0) == 0x80);
    }
    if (id == kNoToken) {
      ids.resize(begin_size);
      return push_unknown(options_.unk_id, word, ids);
    }
    ids.push_back(id);
    begin = end;
  }
  return ok_status();
}

WordLevelModel::WordLevelModel(std::shared_ptr<const Vocabulary> vocabulary, int32_t unk_id)
    : vocabulary_(std::move(vocabulary)), unk_id_(unk_id) {}

Status WordLevelModel::encode(std::string_view word, BlockedIds blocked, std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_->find(word);
  if (id == kNoToken || is_blocked(blocked, id)) return push_unknown(unk_id_, word, ids);
  ids.push_back(id);
  return ok_status();
}

}  // namespace firstlight::text
