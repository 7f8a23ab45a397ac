// SPDX-License-Identifier: Apache-2.0
#include "plan/state_pages.h"

#include <gtest/gtest.h>

namespace firstlight::plan {
namespace {

ops::StateDecl decl_of(ops::StateKind kind, int64_t window = 0, int64_t rate = 1) {
  return {.name = "s",
          .kind = kind,
          .window = window,
          .rate = rate,
          .components = {{"k", 2, 8, tensor::DType::kF32}, {"v", 1, 4, tensor::DType::kF16}}};
}

constexpr int64_t kPage = 2 * 4 * 8 * 4 + 64;  // 4 rows: k f32[2][4][8], v f16[4][4] rounded up to 64

TEST(StatePages, BytesFollowTheKind) {
  const auto log = pages_of(decl_of(ops::StateKind::kAppendLog), 4).value();
  EXPECT_EQ(static_cast<int64_t>(log.page_bytes), kPage);
  EXPECT_EQ(log.components[1].offset_bytes, 2 * 4 * 8 * 4);
  EXPECT_EQ(log.bytes_for(0, 0), 0);
  EXPECT_EQ(log.bytes_for(5, 0), 2 * kPage);
  const auto rate = pages_of(decl_of(ops::StateKind::kRateLog, 0, 4), 4).value();
  EXPECT_EQ(rate.page_rows, 1) << "as many tokens as a page of a log has";
  EXPECT_EQ(rate.bytes_for(3, 0), 0);
  EXPECT_EQ(rate.bytes_for(9, 0), 2 * static_cast<int64_t>(rate.page_bytes));
  const auto fixed = pages_of(decl_of(ops::StateKind::kFixed), 4).value();
  EXPECT_EQ(fixed.bytes_for(1, 0), fixed.bytes_for(1000000, 0));
}

TEST(StatePages, AWindowAndAStepBoundWhatIsHeld) {
  const auto window = pages_of(decl_of(ops::StateKind::kWindowLog, 10), 4).value();
  EXPECT_EQ(window.bytes_for(1000, 0), 250 * kPage) << "a step may be as long as the sequence";
  EXPECT_EQ(window.bytes_for(1000, 3), 4 * kPage) << "9 rows of the window and 3 of the step lie in 4 pages at most";
  for (int64_t length = 1; length < 100; ++length) {
    EXPECT_LE(window.bytes_for(length - 1, 3), window.bytes_for(length, 3));
  }
}

TEST(StatePages, TheFirstRowsAreCountedBesideTheWindow) {
  ops::StateDecl decl = decl_of(ops::StateKind::kWindowLog, 10);
  decl.keep = 5;
  EXPECT_EQ(pages_of(decl, 4).value().bytes_for(1000, 3), (2 + 4) * kPage);
}

TEST(StatePages, BlocksAreCountedWithTheirScales) {
  ops::StateDecl decl = decl_of(ops::StateKind::kAppendLog);
  decl.components = {{"k", 2, 64, tensor::DType::kQ4_1S}, {"v", 1, 40, tensor::DType::kQ8_0}};
  EXPECT_EQ(pages_of(decl, 4).value().page_bytes, 2u * 4 * 48 + 320) << "4 rows of 68 bytes, rounded up to 64";
}

TEST(StatePages, BytesNeverFall) {
  for (const auto type : {tensor::DType::kF32, tensor::DType::kMXFP8, tensor::DType::kQ4_1}) {
    for (const int64_t window : {0, 1, 10}) {
      for (const int64_t keep : {0, 7}) {
        ops::StateDecl decl = decl_of(window > 0 ? ops::StateKind::kWindowLog : ops::StateKind::kAppendLog, window);
        decl.keep = window > 0 ? keep : 0;
        for (auto& part : decl.components) part.dtype = type;
        const auto pages = pages_of(decl, 4).value();
        for (const int64_t step : {0, 1, 16}) {
          for (int64_t length = 1; length < 200; ++length) {
            ASSERT_LE(pages.bytes_for(length - 1, step), pages.bytes_for(length, step)) << length;
          }
        }
      }
    }
  }
}

TEST(StatePages, WhatHasNoPagesIsRefusedByName) {
  const auto shared = pages_of(decl_of(ops::StateKind::kShared), 4);
  EXPECT_EQ(shared.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(shared.status().message().find("state s: kind shared"), std::string::npos) << shared.status().message();
}

}  // namespace
}  // namespace firstlight::plan
