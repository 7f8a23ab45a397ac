// SPDX-License-Identifier: Apache-2.0
// The key segments of attend and attend_segments: which rows of which state a query may see. Read from a node's
// attributes alone, so that the type rule, the kernels and reports agree on it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ops/op.h"

namespace firstlight::ops {

// Rows of one state under the shared softmax. A row is visible when every rule that is set lets it through.
struct KeySegment {
  int state_operand = 1;
  int select_operand = -1;  // i32[T, G, K]: row numbers (or numbers of blocks of rows) per query; -1: all rows
  std::string key;
  std::string value;
  bool causal = true;
  int64_t window = 0;        // positions p-window+1 .. p (and later ones when not causal); 0: no rule
  int64_t chunk = 0;         // positions with the same floor(position / chunk); 0: no rule
  int64_t from = 0;          // rows from this one on
  int64_t until = 0;         // rows in front of this one; 0: no rule
  int64_t select_block = 1;  // rows that one number of `select` stands for
  Expression mask;           // of x0 query position, x1 key position: 0 hides the row; empty: no rule
};

struct KeySegments {
  std::vector<KeySegment> segments;
  int sinks_operand = -1;
  int num_operands = 0;
};

// Of an attend or attend_segments node with checked attributes; `num_operands` says whether attend has sinks. Errors:
// kInvalidArgument naming the attribute.
Result<KeySegments> key_segments(OpKind kind, const Attributes& attributes, size_t num_operands);

// Half-open range of rows of a state that hold what the query at `position` may see, the mask apart; `length` tokens
// of the sequence are in the state, `rate` tokens make a row.
struct RowRange {
  int64_t begin;
  int64_t end;
};
inline RowRange visible_rows(const KeySegment& segment, int64_t rate, int64_t position, int64_t length) {
  const int64_t tokens = segment.causal ? position + 1 : length;
  RowRange range{0,
                 rate == 1 ? tokens : tokens / rate};  // asked for each query and block: no division where none is due
  if (segment.window > 0) range.begin = std::max<int64_t>(0, position - segment.window + 1);
  if (segment.chunk > 0) {
    const int64_t chunk = position / segment.chunk * segment.chunk;
    range.begin = std::max(range.begin, chunk);
    range.end = std::min(range.end, chunk + segment.chunk);
  }
  if (segment.until > 0) range.end = std::min(range.end, segment.until);
  range.begin = std::max(range.begin, segment.from);
  range.end = std::max(range.begin, range.end);
  return range;
}

}  // namespace firstlight::ops
