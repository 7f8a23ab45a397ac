// SPDX-License-Identifier: Apache-2.0
// See unigram_model.h.
#include "text/tokenizers/unigram_model.h"

#include <algorithm>
#include <utility>

#include "text/tokenizers/byte_alphabet.h"
#include "text/unicode.h"

namespace firstlight::text {

UnigramModel::UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, UnigramPieces pieces)
    : vocabulary_(std::move(vocabulary)), pieces_(std::move(pieces)) {
  const auto num_ids = static_cast<size_t>(vocabulary_->end_id());
  pieces_.scores.resize(num_ids, pieces_.unk_score);
  pieces_.excluded.resize(num_ids, false);
  pieces_.user_defined.resize(num_ids, false);
  std::vector<ByteTrie::Key> keys;
  for (int32_t id = 0; id < vocabulary_->end_id(); ++id) {
    if (!pieces_.excluded[static_cast<size_t>(id)]) keys.push_back({vocabulary_->text(id), id});
  }
  trie_ = ByteTrie(std::move(keys));
  for (uint32_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_->find(byte_token(static_cast<unsigned char>(byte)));
  }
}

double UnigramModel::score_of(int32_t id, size_t length) const {
  const auto index = static_cast<size_t>(id);
  if (pieces_.user_defined[index]) return static_cast<double>(length) * pieces_.user_defined_factor - 0.1;
  return pieces_.scores[index];
}

void UnigramModel::offer(Node& target, double score, int32_t id, size_t begin) const {
  if (pieces_.round_to_float) score = static_cast<double>(static_cast<float>(score));
  if (target.begin != UINT32_MAX && !(score > target.score)) return;
  target = {score, id, static_cast<uint32_t>(begin)};
}

void UnigramModel::emit_unknown(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t literal = vocabulary_->find(piece);  // "<unk>" itself, written in the text
  bool all_bytes = pieces_.byte_fallback && literal != pieces_.unk_id;
  for (char c : piece) all_bytes = all_bytes && byte_ids_[static_cast<unsigned char>(c)] != kNoToken;
  if (!all_bytes) {
    ids.push_back(pieces_.unk_id);
    return;
  }
  for (char c : piece) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
}

Status UnigramModel::encode(std::string_view text, BlockedIds blocked, std::vector<int32_t>& ids) const {
  std::vector<Node> best(text.size() + 1);
  best[0].begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t char_length = std::min<size_t>(utf8_length(text[at]), text.size() - at);
    const double score = best[at].score;
    bool has_single = false;
    trie_.for_each_prefix(text, at, [&](size_t length, int32_t id) {
      if (is_blocked(blocked, id)) return;
      offer(best[at + length], score + score_of(id, length), id, at);
      has_single = has_single || length == char_length;
    });
    if (!has_single) {
      if (pieces_.unk_id == kNoToken) {
        return invalid_data("the text has a character at byte " + std::to_string(at) +
                            " that no token covers, and the vocabulary has no unknown token");
      }
      offer(best[at + char_length], score + pieces_.unk_score, pieces_.unk_id, at);
    }
    at += char_length;
  }
  std::vector<std::pair<uint32_t, uint32_t>> cuts;  // begin and end, last piece first
  for (auto end = static_cast<uint32_t>(text.size()); end > 0; end = best[end].begin) {
    const bool unknown = best[end].id == pieces_.unk_id;
    const bool joins = unknown && !cuts.empty() && best[cuts.back().second].id == pieces_.unk_id;
    if (joins) {
      cuts.back().first = best[end].begin;
    } else {
      cuts.emplace_back(best[end].begin, end);
    }
  }
  for (size_t i = cuts.size(); i-- > 0;) {
    const auto [begin, end] = cuts[i];
    if (best[end].id == pieces_.unk_id) {
      emit_unknown(text.substr(begin, end - begin), ids);
    } else {
      ids.push_back(best[end].id);
    }
  }
  return ok_status();
}

}  // namespace firstlight::text
