// SPDX-License-Identifier: Apache-2.0
#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace firstlight {
namespace {

TEST(ProcessMemory, GrowsWithWhatIsWritten) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const ProcessMemory before = process_memory();
  ASSERT_GT(before.resident_bytes, 0);
  EXPECT_GE(before.peak_bytes, before.resident_bytes);
  std::vector<char> written(kBytes, 'x');
  EXPECT_GE(process_memory().resident_bytes, before.resident_bytes + kBytes * 9 / 10);
  EXPECT_EQ(written.back(), 'x');
}

}  // namespace
}  // namespace firstlight
