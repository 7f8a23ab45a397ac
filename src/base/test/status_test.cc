// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace firstlight {
namespace {

Result<std::unique_ptr<int>> half(int x) {
  if (x % 2 != 0) return invalid_argument("x is " + std::to_string(x) + ", an even number wanted");
  return std::make_unique<int>(x / 2);
}

Result<int> quarter(int x) {
  const auto once = FL_TRY(half(x).with_context("first half"));
  const auto twice = FL_TRY(half(*once).with_context("second half"));
  return *twice;
}

Status check_quarter(int x) {
  FL_TRY(quarter(x));
  FL_TRY(ok_status());
  return ok_status();
}

TEST(Status, TryPassesValuesAndMoves) { EXPECT_EQ(quarter(12).value(), 3); }

TEST(Status, ContextNamesTheStep) {
  const auto result = quarter(6);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().to_string(), "invalid argument: second half: x is 3, an even number wanted");
  EXPECT_EQ(check_quarter(6).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(check_quarter(8).ok());
}

TEST(StatusDeathTest, ReadingTheWrongOneIsABug) {
  Result<int> failed = not_found("nothing");
  EXPECT_DEATH(static_cast<void>(failed.value()), "check failed");
}

}  // namespace
}  // namespace firstlight
