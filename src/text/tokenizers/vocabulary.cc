// SPDX-License-Identifier: Apache-2.0
// See vocabulary.h.
#include "text/tokenizers/vocabulary.h"

#include <algorithm>
#include <functional>

namespace firstlight::text {
namespace {

uint32_t hash_of(std::string_view text) {
  const size_t hash = std::hash<std::string_view>()(text);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

void Vocabulary::reserve(size_t num_tokens, size_t num_bytes) {
  bytes_.reserve(num_bytes);
  entries_.reserve(num_tokens);
  size_t slots = 16;
  while (slots < num_tokens * 2) slots *= 2;
  if (slots > slots_.size()) grow(slots);
}

size_t Vocabulary::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id != kNoToken) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && std::string_view(bytes_).substr(slot.offset, slot.length) == text) break;
    at = (at + 1) & mask;
  }
  return at;
}

void Vocabulary::grow(size_t num_slots) {
  std::vector<Slot> old(num_slots);
  old.swap(slots_);
  const size_t mask = num_slots - 1;
  for (const Slot& slot : old) {
    if (slot.id == kNoToken) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].id != kNoToken) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

Status Vocabulary::add(std::string_view text, int64_t id) {
  if (id < 0 || id > kMaxId) {
    return invalid_data("token '" + std::string(text.substr(0, 64)) + "' has id " + std::to_string(id) +
                        ", wanted 0 to " + std::to_string(kMaxId));
  }
  if (bytes_.size() + text.size() > UINT32_MAX) return invalid_data("the token strings are longer than 4 GiB");
  if (slots_.empty() || num_slots_used_ * 2 >= slots_.size()) grow(slots_.empty() ? 16 : slots_.size() * 2);
  const uint32_t hash = hash_of(text);
  const size_t at = slot_of(text, hash);
  const auto index = static_cast<size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  if (!entries_[index].used) ++num_tokens_;
  if (slots_[at].id == kNoToken) {
    ++num_slots_used_;
    slots_[at] = {hash, kNoToken, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())};
    bytes_.append(text);
  }
  slots_[at].id = static_cast<int32_t>(id);
  entries_[index] = {slots_[at].offset, slots_[at].length, true};
  longest_bytes_ = std::max(longest_bytes_, text.size());
  return ok_status();
}

int32_t Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return kNoToken;
  return slots_[slot_of(text, hash_of(text))].id;
}

std::string_view Vocabulary::text(int32_t id) const {
  if (!contains(id)) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(bytes_).substr(entry.offset, entry.length);
}

}  // namespace firstlight::text
