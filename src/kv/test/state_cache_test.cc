// SPDX-License-Identifier: Apache-2.0
#include "kv/state_cache.h"

#include <gtest/gtest.h>

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
  states[0].kind = ops::StateKind::kFixed;
  EXPECT_EQ(StateCache::create(states, {}).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace firstlight::kv
