// SPDX-License-Identifier: Apache-2.0
#include "kv/page_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace firstlight::kv {
namespace {

TEST(HostPages, HoldZerosAtFirstAndWhenAsked) {
  PageStorage& pages = host_pages();
  constexpr size_t kBytes = 192;
  std::byte* page = pages.take(kBytes);
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 64, 0u);
  const auto is_zero = [&] { return std::all_of(page, page + kBytes, [](std::byte b) { return b == std::byte{0}; }); };
  EXPECT_TRUE(is_zero());
  std::fill(page, page + kBytes, std::byte{7});
  EXPECT_FALSE(is_zero());
  std::byte* other = pages.take(kBytes);
  pages.copy(other, page, kBytes);
  EXPECT_TRUE(std::equal(page, page + kBytes, other));
  pages.zero(page, kBytes);
  EXPECT_TRUE(is_zero());
  EXPECT_EQ(other[kBytes - 1], std::byte{7});
  pages.give(other, kBytes);
  pages.give(page, kBytes);
}

}  // namespace
}  // namespace firstlight::kv
