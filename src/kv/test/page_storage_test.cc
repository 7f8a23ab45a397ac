// SPDX-License-Identifier: Apache-2.0
#include "kv/page_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

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

// Kilobytes of huge pages in the mapping that holds `address`; -1 where the system has none.
int64_t huge_kilobytes(const void* address) {
  std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string words((std::istreambuf_iterator<char>(enabled)), {});
  if (words.empty() || words.find("[never]") != std::string::npos) return -1;
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end;
    }
    if (inside && line.starts_with("AnonHugePages:")) return std::stoll(line.substr(14));
  }
  return 0;
}

// Many pages of one size lie beside each other on huge pages, and what comes back is handed out again.
TEST(HostPages, LieOnHugePagesWhereTheyAreMany) {
  PageStorage& pages = host_pages();
  constexpr size_t kBytes = size_t{1} << 20;
  std::vector<std::byte*> taken;
  for (int i = 0; i < 64; ++i) {
    taken.push_back(pages.take(kBytes));
    ASSERT_NE(taken.back(), nullptr);
    ASSERT_EQ(*taken.back(), std::byte{0});
    std::fill_n(taken.back(), kBytes, static_cast<std::byte>(i + 1));
  }
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(
        std::all_of(taken[i], taken[i] + kBytes, [&](std::byte b) { return b == static_cast<std::byte>(i + 1); }));
  }
  const auto kilobytes = huge_kilobytes(taken.back());
  EXPECT_NE(kilobytes, 0) << "no huge pages behind the last page";
  std::byte* last = taken.back();
  pages.give(last, kBytes);
  EXPECT_EQ(pages.take(kBytes), last);
  EXPECT_EQ(*last, std::byte{0});
  for (std::byte* page : taken) pages.give(page, kBytes);
}

}  // namespace
}  // namespace firstlight::kv
