// SPDX-License-Identifier: Apache-2.0
// The two-way table between token strings and ids. Strings live in one block of memory; ids may have gaps. Built once
// by a loader, then only read, from any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::text {

inline constexpr int32_t kNoToken = -1;

class Vocabulary {
 public:
  // Ids above this are refused: no real vocabulary comes near, and a table of all ids must fit into memory.
  static constexpr int64_t kMaxId = (int64_t{1} << 22) - 1;

  void reserve(size_t num_tokens, size_t num_bytes);

  // Adds a token, also under an id that has one already (then `text` finds the id and the id gives the new text).
  // A text that is there already keeps its entry under the old id but is found under the new one from now on.
  // Errors: kInvalidData for an id outside [0, kMaxId].
  Status add(std::string_view text, int64_t id);

  // Errors: none; kNoToken when the text is no token.
  int32_t find(std::string_view text) const;

  bool contains(int64_t id) const { return id >= 0 && id < end_id() && entries_[static_cast<size_t>(id)].used; }

  // The token's string; empty for an id that is not in use.
  std::string_view text(int32_t id) const;

  // One past the largest id.
  int32_t end_id() const { return static_cast<int32_t>(entries_.size()); }
  size_t num_tokens() const { return num_tokens_; }
  size_t longest_bytes() const { return longest_bytes_; }

 private:
  struct Entry {
    uint32_t offset = 0;
    uint32_t length = 0;
    bool used = false;
  };
  struct Slot {
    uint32_t hash = 0;
    int32_t id = kNoToken;
    uint32_t offset = 0;  // of the key; it may differ from the id's own text when a file names one id twice
    uint32_t length = 0;
  };

  size_t slot_of(std::string_view text, uint32_t hash) const;
  void grow(size_t num_slots);

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  size_t num_slots_used_ = 0;
  size_t num_tokens_ = 0;
  size_t longest_bytes_ = 0;
};

}  // namespace firstlight::text
