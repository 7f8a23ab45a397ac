// SPDX-License-Identifier: Apache-2.0
// See charsmap.h. Unit layout of the double array (darts-clone): bits 0-7 label with bit 31, bit 8 "has leaf", bit 9
// shifts the offset of bits 10-30 by 8; a leaf's value is its bits 0-30.
#include "text/tokenizers/charsmap.h"

#include <cstring>

#include "text/unicode.h"

namespace firstlight::text {
namespace {

bool has_leaf(uint32_t unit) { return ((unit >> 8) & 1) == 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t label_of(uint32_t unit) { return unit & (0x80000000u | 0xFFu); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

size_t grapheme_length(std::string_view text, size_t pos) {
  int32_t state = 0;
  CodePoint left = decode_utf8(text, pos);
  size_t at = pos + left.length;
  while (at < text.size()) {
    const CodePoint right = decode_utf8(text, at);
    if (is_grapheme_break(left.value, right.value, state)) break;
    at += right.length;
    left = right;
  }
  return at - pos;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  if (blob.size() < 4)
    return invalid_data("character map of " + std::to_string(blob.size()) + " bytes, wanted at least 4");
  uint32_t trie_bytes = 0;
  std::memcpy(&trie_bytes, blob.data(), 4);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    return invalid_data("character map: trie of " + std::to_string(trie_bytes) + " bytes in a map of " +
                        std::to_string(blob.size()));
  }
  Charsmap map;
  map.units_.resize(trie_bytes / 4);
  if (trie_bytes > 0) std::memcpy(map.units_.data(), blob.data() + 4, trie_bytes);
  map.replacements_ = blob.substr(4 + trie_bytes);
  if (!is_valid_utf8(map.replacements_)) return invalid_data("character map: the replacements are not UTF-8");
  return map;
}

std::string_view Charsmap::replacement_at(uint32_t offset) const {
  if (offset >= replacements_.size()) return {};
  const std::string_view rest = std::string_view(replacements_).substr(offset);
  return rest.substr(0, rest.find('\0'));
}

template <typename Visit>
void Charsmap::for_each_prefix(std::string_view text, Visit visit) const {
  if (units_.empty()) return;
  uint32_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) return;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) return;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) return;
    if (!visit(i + 1, value_of(units_[node]))) return;
  }
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match best;
  for_each_prefix(text, [&](size_t length, uint32_t offset) {
    best = {length, replacement_at(offset)};
    return true;
  });
  return best;
}

Charsmap::Match Charsmap::shortest(std::string_view text) const {
  Match best;
  for_each_prefix(text, [&](size_t length, uint32_t offset) {
    best = {length, replacement_at(offset)};
    return false;
  });
  return best;
}

std::string Charsmap::apply_by_grapheme(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t length = grapheme_length(text, pos);
    const std::string_view grapheme = text.substr(pos, length);
    pos += length;
    if (length < 6) {
      const Match whole = shortest(grapheme);
      if (whole.length > 0) {
        out += whole.replacement;
        continue;
      }
    }
    for (size_t at = 0; at < grapheme.size();) {
      const CodePoint point = decode_utf8(grapheme, at);
      const std::string_view part = grapheme.substr(at, point.length);
      const Match match = shortest(part);
      out += match.length > 0 ? match.replacement : part;
      at += point.length;
    }
  }
  return out;
}

}  // namespace firstlight::text
