// SPDX-License-Identifier: Apache-2.0
#include "kv/state_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace firstlight::kv {
namespace {

ops::StateDecl log_state(const std::string& name, int64_t window = 0) {
  ops::StateDecl decl;
  decl.name = name;
  decl.kind = window > 0 ? ops::StateKind::kWindowLog : ops::StateKind::kAppendLog;
  decl.window = window;
  decl.components = {{"k", 2, 8, tensor::DType::kF32}, {"v", 1, 4, tensor::DType::kF16}};
  return decl;
}

constexpr int64_t kPageBytes = 2 * 4 * 8 * 4 + 64;  // 4 rows: k f32[2][4][8], v f16[4][4] rounded up to 64

TEST(StateCache, PagesFollowTheLength) {
  const std::array states = {log_state("a"), log_state("b")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const SequenceId id = cache.add_sequence();
  ASSERT_TRUE(cache.extend(id, 5).ok());
  EXPECT_EQ(cache.used_bytes(), 2 * 2 * kPageBytes);
  EXPECT_EQ(cache.bytes_for_length(5), cache.used_bytes());
  const std::array ids = {id};
  const auto views = cache.views(ids);
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].pages[0].size(), 2u);
  EXPECT_NE(views[0].pages[0][0], views[1].pages[0][0]);
  EXPECT_EQ(views[0].components[1].offset_bytes, 2 * 4 * 8 * 4);
  ASSERT_TRUE(cache.truncate(id, 4).ok());
  EXPECT_EQ(cache.used_bytes(), 2 * kPageBytes);
  cache.remove_sequence(id);
  EXPECT_EQ(cache.used_bytes(), 0);
}

TEST(StateCache, WindowGivesPagesBackAndRefusesToGoBack) {
  const std::array states = {log_state("w", 3)};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const SequenceId id = cache.add_sequence();
  ASSERT_TRUE(cache.extend(id, 10).ok());
  ASSERT_TRUE(cache.extend(id, 11).ok());  // token 10 sees 8, 9, 10: two whole pages have passed
  EXPECT_EQ(cache.used_bytes(), kPageBytes);
  EXPECT_EQ(cache.truncate(id, 9).code(), StatusCode::kInvalidArgument);  // token 9 would see row 7
  EXPECT_TRUE(cache.truncate(id, 10).ok());
}

// Room behind tokens that are not computed yet: what the first of them sees stays.
TEST(StateCache, RoomForGuessesLeavesWhatTheNextTokenSees) {
  const std::array states = {log_state("w", 3)};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const SequenceId id = cache.add_sequence();
  ASSERT_TRUE(cache.extend(id, 9).ok());
  ASSERT_TRUE(cache.extend(id, 10).ok());     // token 9 sees row 7
  ASSERT_TRUE(cache.extend(id, 12, 9).ok());  // token 10 would see 8, 9, 10 alone
  const std::array ids = {id};
  EXPECT_NE(cache.views(ids)[0].pages[0][1], nullptr);
  EXPECT_TRUE(cache.truncate(id, 10).ok());
  ASSERT_TRUE(cache.extend(id, 11).ok());
  EXPECT_EQ(cache.views(ids)[0].pages[0][1], nullptr);
}

// However long the sequence: the pages of the first rows, and those of the window.
TEST(StateCache, TheFirstRowsStayBesideTheWindow) {
  std::array states = {log_state("w", 6)};
  states[0].keep = 5;  // two pages
  auto cache = StateCache::create(states, {.page_rows = 4, .capacity_bytes = 5 * kPageBytes, .step_tokens = 1}).value();
  EXPECT_EQ(cache.bytes_for_length(1 << 20), 5 * kPageBytes);
  const SequenceId id = cache.add_sequence();
  for (int64_t length = 1; length <= 4000; ++length) ASSERT_TRUE(cache.extend(id, length).ok()) << length;
  const std::array ids = {id};
  const auto pages = cache.views(ids)[0].pages[0];
  ASSERT_EQ(pages.size(), 1000u);
  for (size_t p = 0; p < pages.size(); ++p) EXPECT_EQ(pages[p] != nullptr, p < 2 || p >= 998) << p;
  EXPECT_EQ(cache.truncate(id, 3000).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(cache.truncate(id, 3999).ok());
}

TEST(StateCache, CapacityIsALimit) {
  const std::array states = {log_state("a")};
  auto cache = StateCache::create(states, {.page_rows = 4, .capacity_bytes = 2 * kPageBytes}).value();
  const SequenceId first = cache.add_sequence();
  const SequenceId second = cache.add_sequence();
  ASSERT_TRUE(cache.extend(first, 8).ok());
  const Status refused = cache.extend(second, 1);
  EXPECT_EQ(refused.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(cache.length(second), 0);
  cache.remove_sequence(first);
  EXPECT_TRUE(cache.extend(second, 1).ok());
}

TEST(StateCache, OtherKindsAreRefused) {
  std::array states = {log_state("a")};
  states[0].kind = ops::StateKind::kShared;
  EXPECT_EQ(StateCache::create(states, {}).code(), StatusCode::kUnsupported);
}

// A convolution's rows and a matrix per head, as a gated delta layer has them.
ops::StateDecl fixed_state(const std::string& name) {
  ops::StateDecl decl;
  decl.name = name;
  decl.kind = ops::StateKind::kFixed;
  decl.rewind = ops::Rewind::kSnapshot;
  decl.components = {{"conv", 3, 10, tensor::DType::kF32}, {"s", 8, 4, tensor::DType::kF32}};
  return decl;
}

constexpr int64_t kFixedBytes = 128 + 8 * 4 * 4;  // 3 x 10 floats rounded up to 64 bytes, then 8 x 4

TEST(StateCache, AFixedStateIsFloat32AndCountedOnceWhateverTheLength) {
  const std::array states = {fixed_state("s.0"), fixed_state("s.1"), log_state("kv.2")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  EXPECT_EQ(cache.bytes_for_length(0), 0);
  EXPECT_EQ(cache.bytes_for_length(1), 2 * kFixedBytes + kPageBytes);
  EXPECT_EQ(cache.bytes_for_length(400), 2 * kFixedBytes + 100 * kPageBytes);
  const std::array ids = {cache.add_sequence()};
  ASSERT_TRUE(cache.extend(ids[0], 9).ok());
  EXPECT_EQ(cache.used_bytes(), cache.bytes_for_length(9));
  const auto views = cache.views(ids);
  EXPECT_EQ(views[0].page_rows, 1);
  EXPECT_EQ(views[0].pages[0].size(), 1u);
  EXPECT_EQ(views[0].components[1].dtype, tensor::DType::kF32);
  EXPECT_EQ(views[0].components[1].offset_bytes, 128);
  EXPECT_EQ(views[2].page_rows, 4);
  EXPECT_EQ(views[2].pages[0].size(), 3u);
}

TEST(StateCache, AFixedStateCountsAgainstTheCapacity) {
  const std::array states = {fixed_state("s.0")};
  auto cache = StateCache::create(states, {.page_rows = 4, .capacity_bytes = 2 * kFixedBytes - 1}).value();
  const SequenceId first = cache.add_sequence();
  const SequenceId second = cache.add_sequence();
  ASSERT_TRUE(cache.extend(first, 1000).ok());
  EXPECT_EQ(cache.extend(second, 1).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(cache.used_bytes(), kFixedBytes);
}

TEST(StateCache, AFixedStateIsZeroForEachNewSequence) {
  const std::array states = {fixed_state("s.0")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  std::array ids = {cache.add_sequence()};
  ASSERT_TRUE(cache.extend(ids[0], 5).ok());
  std::byte* page = cache.views(ids)[0].pages[0][0];
  std::fill(page, page + kFixedBytes, std::byte{0x7f});
  ASSERT_TRUE(cache.extend(ids[0], 6).ok());
  EXPECT_EQ(cache.views(ids)[0].pages[0][0][0], std::byte{0x7f}) << "growing keeps the state";
  cache.remove_sequence(ids[0]);
  ids[0] = cache.add_sequence();
  ASSERT_TRUE(cache.extend(ids[0], 1).ok());
  const std::byte* reused = cache.views(ids)[0].pages[0][0];
  ASSERT_EQ(reused, page) << "the page of the first sequence is expected here";
  EXPECT_TRUE(std::all_of(reused, reused + kFixedBytes, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(StateCache, AFixedStateGoesBackToTheStartOrNotAtAll) {
  const std::array states = {log_state("kv.0"), fixed_state("s.1")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const std::array ids = {cache.add_sequence()};
  ASSERT_TRUE(cache.extend(ids[0], 9).ok());
  const Status refused = cache.truncate(ids[0], 8);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "state 's.1' cannot go back from 9 to 8 tokens: it does not keep its past");
  EXPECT_EQ(cache.length(ids[0]), 9);
  EXPECT_EQ(cache.used_bytes(), cache.bytes_for_length(9)) << "a refusal changes nothing";
  EXPECT_TRUE(cache.truncate(ids[0], 9).ok());
  cache.views(ids)[1].pages[0][0][0] = std::byte{1};
  ASSERT_TRUE(cache.truncate(ids[0], 0).ok());
  EXPECT_EQ(cache.used_bytes(), 0);
  ASSERT_TRUE(cache.extend(ids[0], 1).ok());
  EXPECT_EQ(cache.views(ids)[1].pages[0][0][0], std::byte{0});
}

TEST(StateCache, ATokenHistoryIsAWindowOfIds) {
  ops::StateDecl decl;
  decl.name = "ids.0";
  decl.kind = ops::StateKind::kTokenHistory;
  decl.window = 3;
  decl.components = {{"ids", 1, 1, tensor::DType::kI32}};
  const std::array states = {decl};
  auto cache = StateCache::create(states, {.page_rows = 16}).value();
  const std::array ids = {cache.add_sequence()};
  ASSERT_TRUE(cache.extend(ids[0], 40).ok());
  EXPECT_EQ(cache.used_bytes(), 3 * 64);
  ASSERT_TRUE(cache.extend(ids[0], 41).ok());  // token 40 sees 38, 39, 40: two pages have passed
  EXPECT_EQ(cache.used_bytes(), 64);
  EXPECT_TRUE(cache.truncate(ids[0], 39).ok());
  EXPECT_EQ(cache.views(ids)[0].components[0].dtype, tensor::DType::kI32);
}

// Hands out numbers that nobody may follow.
class CountedPages final : public PageStorage {
 public:
  std::byte* take(size_t bytes) override {
    if (taken == most) return nullptr;
    ++taken;
    return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(next++ * bytes));
  }
  void give(std::byte*, size_t) override { --taken; }
  void zero(std::byte*, size_t) override { ++zeroed; }
  void copy(std::byte*, const std::byte*, size_t) override { ++copied; }
  Status read(std::byte*, const std::byte*, size_t) override { return ok_status(); }
  Status write(std::byte*, const std::byte*, size_t) override { return ok_status(); }
  int taken = 0, zeroed = 0, copied = 0, most = 1000;
  size_t next = 1;
};

TEST(StateCache, PagesLieWhereTheStorageSays) {
  CountedPages storage;
  const std::array states = {fixed_state("s.0"), log_state("kv.1")};
  {
    auto cache = StateCache::create(states, {.page_rows = 4, .storage = &storage}).value();
    std::array ids = {cache.add_sequence()};
    ASSERT_TRUE(cache.extend(ids[0], 9).ok());
    EXPECT_EQ(storage.taken, 1 + 3);
    EXPECT_EQ(storage.zeroed, 1);
    EXPECT_EQ(cache.views(ids)[1].pages[0].size(), 3u);
    cache.remove_sequence(ids[0]);
    ids[0] = cache.add_sequence();
    ASSERT_TRUE(cache.extend(ids[0], 1).ok());
    EXPECT_EQ(storage.taken, 4) << "pages are used again";
    EXPECT_TRUE(cache.restore(ids[0], cache.take_snapshot(ids[0]).value()).ok());
    EXPECT_EQ(storage.copied, 2);
    storage.most = 5;
    EXPECT_EQ(cache.extend(ids[0], 100).code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(cache.length(ids[0]), 1);
  }
  EXPECT_EQ(storage.taken, 0) << "all are given back";
}

// A row per two tokens, and half as many rows to a page: pages come with whole groups alone.
TEST(StateCache, ALogAtARateHasARowPerGroup) {
  std::array states = {log_state("compressed.0"), log_state("kv.0")};
  states[0].kind = ops::StateKind::kRateLog;
  states[0].rate = 2;
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const std::array ids = {cache.add_sequence()};
  const auto pages = [&](size_t state) { return cache.views(ids)[state].pages[0].size(); };
  EXPECT_EQ(cache.block_tokens(), 4);
  ASSERT_TRUE(cache.extend(ids[0], 1).ok());
  EXPECT_EQ(pages(0), 0u);
  ASSERT_TRUE(cache.extend(ids[0], 2).ok());
  EXPECT_EQ(pages(0), 1u);
  ASSERT_TRUE(cache.extend(ids[0], 5).ok());  // two rows: one page
  EXPECT_EQ(pages(0), 1u);
  EXPECT_EQ(pages(1), 2u);
  ASSERT_TRUE(cache.extend(ids[0], 6).ok());
  EXPECT_EQ(pages(0), 2u);
  EXPECT_EQ(cache.views(ids)[0].page_rows, 2);
  constexpr int64_t kHalfPage = 2 * 2 * 8 * 4 + 64;
  EXPECT_EQ(cache.used_bytes(), 2 * kHalfPage + 2 * kPageBytes);
  EXPECT_EQ(cache.used_bytes(), cache.bytes_for_length(6));
  ASSERT_TRUE(cache.truncate(ids[0], 5).ok());
  EXPECT_EQ(pages(0), 1u);
  ASSERT_TRUE(cache.truncate(ids[0], 1).ok());
  EXPECT_EQ(pages(0), 0u);
  EXPECT_EQ(cache.used_bytes(), cache.bytes_for_length(1));
}

TEST(StateCache, ASnapshotBringsFixedStatesBack) {
  const std::array states = {log_state("kv.0"), fixed_state("s.1")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const std::array ids = {cache.add_sequence()};
  const auto byte = [&]() -> std::byte& { return cache.views(ids)[1].pages[0][0][kFixedBytes - 1]; };
  ASSERT_TRUE(cache.extend(ids[0], 6).ok());
  byte() = std::byte{5};
  const SnapshotId taken = cache.take_snapshot(ids[0]).value();
  EXPECT_EQ(cache.snapshot_length(taken), 6);
  EXPECT_EQ(cache.used_bytes(), cache.bytes_for_length(6) + kFixedBytes);
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(cache.extend(ids[0], 13).ok());
    byte() = std::byte{9};
    ASSERT_TRUE(cache.restore(ids[0], taken).ok());
    EXPECT_EQ(cache.length(ids[0]), 6);
    EXPECT_EQ(byte(), std::byte{5});
    EXPECT_EQ(cache.used_bytes(), cache.bytes_for_length(6) + kFixedBytes);
  }
  const SequenceId other = cache.add_sequence();
  const Status refused = cache.restore(other, taken);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "state 'kv.0' holds 0 tokens of the snapshot's 6");
  cache.drop_snapshot(taken);
  cache.remove_sequence(ids[0]);
  EXPECT_EQ(cache.used_bytes(), 0);
}

TEST(StateCache, AForkSharesLogsUntilOneWrites) {
  const std::array states = {log_state("a"), fixed_state("s")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const SequenceId one = cache.add_sequence();
  ASSERT_TRUE(cache.extend(one, 6).ok());
  const int64_t alone = cache.used_bytes();
  const SequenceId two = cache.add_sequence();
  ASSERT_TRUE(cache.fork(two, one).ok());
  EXPECT_EQ(cache.length(two), 6);
  EXPECT_EQ(cache.used_bytes(), alone + cache.snapshot_bytes()) << "pages of logs count once";
  const std::array ids = {one, two};
  std::byte* shared = cache.views(ids)[0].pages[0][1];
  EXPECT_EQ(cache.views(ids)[0].pages[1][1], shared);
  EXPECT_NE(cache.views(ids)[1].pages[0][0], cache.views(ids)[1].pages[1][0]);
  shared[0] = std::byte{42};
  ASSERT_TRUE(cache.extend(two, 7).ok());
  EXPECT_EQ(cache.views(ids)[0].pages[0][1], shared);
  EXPECT_NE(cache.views(ids)[0].pages[1][1], shared);
  EXPECT_EQ(cache.views(ids)[0].pages[1][1][0], std::byte{42});
  EXPECT_EQ(cache.views(ids)[0].pages[1][0], cache.views(ids)[0].pages[0][0]) << "a full page stays shared";
  cache.remove_sequence(one);
  cache.remove_sequence(two);
  EXPECT_EQ(cache.used_bytes(), 0);
}

TEST(StateCache, ASnapshotAloneStartsASequenceWithoutLogs) {
  const std::array states = {fixed_state("s.0")};
  auto cache = StateCache::create(states, {.page_rows = 4, .capacity_bytes = 3 * kFixedBytes}).value();
  const SequenceId first = cache.add_sequence();
  const SnapshotId start = cache.take_snapshot(first).value();  // before the first token there is nothing to copy
  EXPECT_EQ(cache.used_bytes(), 0);
  ASSERT_TRUE(cache.extend(first, 7).ok());
  std::array ids = {first};
  cache.views(ids)[0].pages[0][0][3] = std::byte{4};
  const SnapshotId taken = cache.take_snapshot(first).value();
  ids[0] = cache.add_sequence();
  ASSERT_TRUE(cache.restore(ids[0], taken).ok());
  EXPECT_EQ(cache.length(ids[0]), 7);
  EXPECT_EQ(cache.views(ids)[0].pages[0][0][3], std::byte{4});
  EXPECT_EQ(cache.take_snapshot(first).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(cache.used_bytes(), 3 * kFixedBytes) << "a refusal changes nothing";
  ASSERT_TRUE(cache.restore(ids[0], start).ok());
  EXPECT_EQ(cache.length(ids[0]), 0);
}

TEST(StateCache, ASnapshotIsOfNoUseOnceAWindowHasPassed) {
  const std::array states = {log_state("w.0", 3), fixed_state("s.1")};
  auto cache = StateCache::create(states, {.page_rows = 4}).value();
  const SequenceId id = cache.add_sequence();
  ASSERT_TRUE(cache.extend(id, 5).ok());
  const SnapshotId taken = cache.take_snapshot(id).value();
  ASSERT_TRUE(cache.extend(id, 7).ok());
  ASSERT_TRUE(cache.restore(id, taken).ok());
  ASSERT_TRUE(cache.extend(id, 16).ok());
  ASSERT_TRUE(cache.extend(id, 17).ok());
  EXPECT_EQ(cache.restore(id, taken).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache.length(id), 17);
}

}  // namespace
}  // namespace firstlight::kv
