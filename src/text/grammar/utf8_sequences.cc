// SPDX-License-Identifier: Apache-2.0
// Ranges of code points as ranges of bytes. A range is cut where the length of its encoding changes, and then until its
// ends agree in all leading bytes but one, with the bytes after that one free: then it is a product of byte ranges.
#include <algorithm>

#include "text/grammar/automaton.h"
#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

constexpr char32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};

void add_range(char32_t first, char32_t last, std::vector<ByteRangeSequence>& out) {
  for (const char32_t end : kLastOfLength) {
    if (first <= end && last > end) {
      add_range(first, end, out);
      add_range(end + 1, last, out);
      return;
    }
  }
  // Continuation bytes hold six bits each: cut at the multiples of 64, 4096, ... that lie inside.
  for (uint32_t bits = 6; bits <= 18; bits += 6) {
    const char32_t low = (char32_t{1} << bits) - 1;
    if ((first & ~low) == (last & ~low)) break;
    if ((first & low) != 0) {
      add_range(first, first | low, out);
      add_range((first | low) + 1, last, out);
      return;
    }
    if ((last & low) != low) {
      add_range(first, (last & ~low) - 1, out);
      add_range(last & ~low, last, out);
      return;
    }
  }
  std::string a, b;
  append_utf8(a, first);
  append_utf8(b, last);
  ByteRangeSequence sequence;
  sequence.length = static_cast<int>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sequence.first[i] = static_cast<uint8_t>(a[i]);
    sequence.last[i] = static_cast<uint8_t>(b[i]);
  }
  out.push_back(sequence);
}

}  // namespace

std::vector<ByteRangeSequence> utf8_sequences(const std::vector<CharRange>& ranges) {
  std::vector<ByteRangeSequence> sequences;
  for (const CharRange& range : ranges) add_range(range.first, range.last, sequences);
  return sequences;
}

}  // namespace firstlight::text::grammar
