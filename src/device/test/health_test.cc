// SPDX-License-Identifier: Apache-2.0
// The probe's judgement on results as a device with a fault would return them: the traps of porting.
#include "device/health.h"

#include <gtest/gtest.h>

#include <numeric>

namespace firstlight::device {
namespace {

// What probe_warp returns on a device whose lanes really act in warps of `width`.
struct Results {
  std::vector<int32_t> seen, warps;
  std::vector<float> sums, most;
};
Results of_width(int width, int threads) {
  Results r;
  for (int t = 0; t < threads; ++t) {
    const int first = t / width * width;
    r.seen.push_back(t ^ (width - 1));
    r.sums.push_back(static_cast<float>(first * width + width * (width - 1) / 2));
    r.most.push_back(static_cast<float>(first + width - 1));
    r.warps.push_back(t / width);
  }
  return r;
}

TEST(Health, TheWidthThatIsStatedMustBeTheWidthThatIs) {
  for (const int real : {32, 64, 128}) {
    for (const int stated : {32, 64, 128}) {
      const Results r = of_width(real, 384);
      const Status status = check_warp_results(stated, r.seen, r.sums, r.most, r.warps);
      EXPECT_EQ(status.ok(), real == stated) << real << " " << stated;
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      EXPECT_NE(status.message().find("warps of " + std::to_string(stated) + " lanes: shuffle at 0: found " +
                                      std::to_string(real - 1) + ", wanted " + std::to_string(stated - 1)),
                std::string::npos)
          << status.message();
    }
  }
}

TEST(Health, EveryWarpOperationIsLookedAt) {
  for (int part = 0; part < 4; ++part) {
    Results r = of_width(64, 192);
    if (part == 0) r.seen[70] += 1;
    if (part == 1) r.sums[70] += 1;
    if (part == 2) r.most[70] = -1;
    if (part == 3) r.warps[70] = 0;
    const Status status = check_warp_results(64, r.seen, r.sums, r.most, r.warps);
    ASSERT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_NE(status.message().find(" at 70: "), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace firstlight::device
