// SPDX-License-Identifier: Apache-2.0
// The cutting of attend into tasks: every query once, every key that some query of a task sees in exactly one part.
#include "kernels/attend/split.h"

#include <gtest/gtest.h>

#include <map>

namespace firstlight::kernels {
namespace {

struct Setup {
  std::vector<plan::SequenceSpan> sequences;
  int64_t heads;
  int64_t kv_heads;
  int64_t window;
  int workers;
  int64_t selected = 0;        // of the first segment
  int64_t second_window = -1;  // -1: one segment
};

void check(const Setup& setup) {
  AttendOptions options;
  options.segments.resize(setup.second_window < 0 ? 1 : 2);
  options.segments[0].rules.window = setup.window;
  if (setup.second_window >= 0) options.segments[1].rules.window = setup.second_window;
  if (setup.selected > 0) options.segments[0].rules.select_operand = 2;
  std::vector<int64_t> selected(options.segments.size(), 0);
  selected[0] = setup.selected;
  plan::Batch batch;
  batch.sequences = setup.sequences;
  const AttendSplit split(options, selected, batch, setup.heads, setup.kv_heads, setup.workers);
  std::map<std::tuple<size_t, int64_t, int64_t>, int64_t>
      next_key;                                              // sequence, kv head, first token -> where parts go on
  std::map<std::tuple<size_t, int64_t, int64_t>, int> seen;  // sequence, kv head, token
  for (int64_t i = 0; i < split.num_tasks(); ++i) {
    const AttendTask task = split.task(i);
    const plan::SequenceSpan& sequence = setup.sequences[task.sequence];
    const int64_t length = sequence.start_position + sequence.num_tokens;
    const int64_t first = sequence.start_position + task.first_token;
    int64_t candidates = 0;
    for (size_t s = 0; s < options.segments.size(); ++s) {
      const int64_t begin = visible_rows(options.segments[s], first, length).begin;
      const int64_t end = visible_rows(options.segments[s], first + task.num_tokens - 1, length).end;
      candidates += selected[s] > 0 ? selected[s] : end - begin;
    }
    EXPECT_GE(task.num_tokens, 1);
    EXPECT_LE(task.num_tokens * split.group(), AttendSplit::most_rows(split.group()));
    const auto place = std::tuple(task.sequence, task.kv_head, task.first_token);
    if (task.part == 0) {
      next_key[place] = 0;
      for (int64_t t = 0; t < task.num_tokens; ++t) ++seen[{task.sequence, task.kv_head, task.first_token + t}];
    }
    EXPECT_EQ(task.keys.begin, next_key[place]) << "part " << task.part;
    EXPECT_LE(task.keys.begin, task.keys.end);
    next_key[place] = task.keys.end;
    if (task.part == split.num_parts() - 1) {
      EXPECT_EQ(task.keys.end, candidates);
    }
  }
  size_t wanted = 0;
  for (const auto& s : setup.sequences) wanted += static_cast<size_t>(s.num_tokens * setup.kv_heads);
  EXPECT_EQ(seen.size(), wanted);
  for (const auto& [place, times] : seen) EXPECT_EQ(times, 1);
  EXPECT_TRUE(split.num_parts() == 1 || split.num_tasks() <= AttendSplit::most_split_tasks(setup.workers));
}

TEST(AttendSplit, CoversEveryQueryAndKeyOnce) {
  check({{{0, 100, 0, 0}}, 9, 3, 0, 2});
  check({{{0, 1, 5000, 0}}, 9, 3, 0, 2});
  check({{{0, 1, 5000, 0}}, 8, 1, 0, 7});
  check({{{0, 1, 5000, 0}}, 64, 1, 300, 16});
  check({{{0, 3, 700, 0}, {3, 1, 20, 0}, {4, 0, 9, 0}, {4, 2, 0, 0}}, 4, 2, 0, 64});
  check({{{0, 70, 10, 0}}, 64, 2, 16, 3});
  check({{}, 4, 2, 0, 4});
  check({{{0, 3, 700, 0}, {3, 1, 20, 0}}, 64, 1, 0, 8, 512});
  check({{{0, 3, 700, 0}, {3, 1, 20, 0}}, 64, 1, 0, 8, 512, 128});
  check({{{0, 30, 700, 0}}, 8, 2, 0, 2, 0, 128});
}

TEST(AttendSplit, SplitsKeysOnlyWhenWorkersWouldIdle) {
  AttendOptions options;
  options.segments.resize(1);
  plan::Batch batch;
  const std::vector<plan::SequenceSpan> decode = {{0, 1, 4095, 0}};
  batch.sequences = decode;
  EXPECT_EQ(AttendSplit(options, {0}, batch, 9, 3, 1).num_parts(), 1);
  EXPECT_EQ(AttendSplit(options, {0}, batch, 9, 3, 2).num_parts(), 2);
  EXPECT_EQ(AttendSplit(options, {0}, batch, 9, 3, 16).num_parts(), 11);
  const std::vector<plan::SequenceSpan> shallow = {{0, 1, 100, 0}};
  batch.sequences = shallow;
  EXPECT_EQ(AttendSplit(options, {0}, batch, 9, 3, 16).num_parts(), 1);
  const std::vector<plan::SequenceSpan> prompt = {{0, 512, 0, 0}};
  batch.sequences = prompt;
  EXPECT_EQ(AttendSplit(options, {0}, batch, 9, 3, 2).num_parts(), 1);
}

}  // namespace
}  // namespace firstlight::kernels
