// SPDX-License-Identifier: Apache-2.0
// The cutting of attend: every query in one item, every key that some query of an item sees in one part, parts that
// end at fixed rows whatever the batch.
#include "kernels/attend/split.h"

#include <gtest/gtest.h>

#include <map>

namespace firstlight::kernels {
namespace {

struct Call {
  std::vector<plan::SequenceSpan> sequences;
  int64_t heads;
  int64_t kv_heads;
  int64_t window;
  int64_t places = 0;          // of the first segment's selection
  int64_t second_window = -1;  // -1: one segment
};

AttendOptions options_of(const Call& setup) {
  AttendOptions options;
  options.segments.resize(setup.second_window < 0 ? 1 : 2);
  options.segments[0].rules.window = setup.window;
  if (setup.second_window >= 0) options.segments[1].rules.window = setup.second_window;
  if (setup.places > 0) options.segments[0].rules.select_operand = 2;
  options.segments[0].places = setup.places;
  return options;
}

void check(const Call& setup) {
  const AttendOptions options = options_of(setup);
  plan::Batch batch;
  batch.sequences = setup.sequences;
  const AttendSplit split(options, batch, setup.heads, setup.kv_heads);
  std::map<std::tuple<size_t, int64_t, int64_t>, int> seen;  // sequence, kv head, token
  int64_t most_parts = 0, most_rows = 0;
  for (int64_t i = 0; i < split.num_items(); ++i) {
    const AttendItem item = split.item(i);
    const plan::SequenceSpan& sequence = setup.sequences[item.sequence];
    const int64_t length = sequence.start_position + sequence.num_tokens;
    const int64_t first = sequence.start_position + item.first_token;
    EXPECT_GE(item.num_tokens, 1);
    EXPECT_LE(item.num_tokens * split.group(), split.item_rows());
    most_rows = std::max(most_rows, item.num_tokens * split.group());
    for (int64_t t = 0; t < item.num_tokens; ++t) ++seen[{item.sequence, item.kv_head, item.first_token + t}];
    most_parts = std::max(most_parts, split.num_parts(item));
    int64_t index = 0;
    for (size_t s = 0; s < options.segments.size(); ++s) {
      const bool selects = options.segments[s].places > 0;
      int64_t next = selects ? 0 : visible_rows(options.segments[s], first, length).begin;
      const int64_t end =
          selects ? setup.places : visible_rows(options.segments[s], first + item.num_tokens - 1, length).end;
      for (; next < end; ++index) {
        const AttendPart part = split.part(item, index);
        EXPECT_EQ(part.segment, s);
        EXPECT_EQ(part.range.begin, next);
        EXPECT_TRUE(part.range.end == end || part.range.end % AttendSplit::kPartKeys == 0);
        EXPECT_LE(part.range.end - part.range.begin, AttendSplit::kPartKeys);
        ASSERT_GT(part.range.end, next);
        next = part.range.end;
      }
    }
    EXPECT_EQ(index, split.num_parts(item));
  }
  size_t wanted = 0;
  for (const auto& s : setup.sequences) wanted += static_cast<size_t>(s.num_tokens * setup.kv_heads);
  EXPECT_EQ(seen.size(), wanted);
  for (const auto& [place, times] : seen) EXPECT_EQ(times, 1);
  EXPECT_EQ(split.most_parts(), most_parts);
  EXPECT_EQ(split.item_rows(), most_rows);
  EXPECT_LE(most_rows, AttendSplit::most_rows(setup.heads));
}

TEST(AttendSplit, CoversEveryQueryAndKeyOnce) {
  check({{{0, 100, 0, 0}}, 9, 3, 0});
  check({{{0, 1, 5000, 0}}, 9, 3, 0});
  check({{{0, 1, 5000, 0}}, 64, 1, 300});
  check({{{0, 3, 700, 0}, {3, 1, 20, 0}, {4, 0, 9, 0}, {4, 2, 0, 0}}, 4, 2, 0});
  check({{{0, 70, 10, 0}}, 64, 2, 16});
  check({{{0, 200, 900, 0}}, 8, 2, 100});
  check({{}, 4, 2, 0});
  check({{{0, 3, 700, 0}, {3, 1, 20, 0}}, 64, 1, 0, 512});
  check({{{0, 3, 700, 0}, {3, 1, 20, 0}}, 64, 1, 0, 1100, 128});
  check({{{0, 30, 700, 0}}, 8, 2, 0, 0, 128});
}

TEST(AttendSplit, PartsDoNotDependOnTheBatch) {
  const Call alone{{{0, 1, 4095, 0}}, 9, 3, 0};
  const Call among{{{0, 7, 20, 0}, {7, 6, 4090, 0}}, 9, 3, 0};
  const AttendOptions options = options_of(alone);
  plan::Batch one, several;
  one.sequences = alone.sequences;
  several.sequences = among.sequences;
  const AttendSplit first(options, one, 9, 3), second(options, several, 9, 3);
  const AttendItem a = first.item(0);
  AttendItem b = second.item(second.num_items() - 1);
  EXPECT_EQ(b.sequence, 1u);
  ASSERT_EQ(first.num_parts(a), second.num_parts(b));
  for (int64_t p = 0; p + 1 < first.num_parts(a); ++p) {
    EXPECT_EQ(first.part(a, p).range.end, second.part(b, p).range.end);
  }
}

}  // namespace
}  // namespace firstlight::kernels
