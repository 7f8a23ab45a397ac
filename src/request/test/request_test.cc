// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

#include <gtest/gtest.h>

#include <cmath>

namespace firstlight::request {
namespace {

TEST(SamplingParams, DefaultsAreLegal) { EXPECT_TRUE(check({}, 10).ok()); }

TEST(SamplingParams, EachRangeIsHeld) {
  const auto message = [](const SamplingParams& params) {
    const Status status = check(params, 10);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(message({.repetition_penalty = 0}), "repetition_penalty is 0, 0.001 to 1000 wanted");
  EXPECT_EQ(message({.repetition_penalty = 1e39}), "repetition_penalty is 1e+39, 0.001 to 1000 wanted");
  EXPECT_EQ(message({.presence_penalty = 2.5}), "presence_penalty is 2.5, -2 to 2 wanted");
  EXPECT_EQ(message({.frequency_penalty = -3}), "frequency_penalty is -3, -2 to 2 wanted");
  EXPECT_EQ(message({.logit_bias = {{10, 1}}}), "logit_bias token is 10, an id below 10 wanted");
  EXPECT_EQ(message({.logit_bias = {{1, 101}}}), "logit_bias is 101, -100 to 100 wanted");
  EXPECT_EQ(message({.temperature = -1}), "temperature is -1, 0 to 100 wanted");
  EXPECT_EQ(message({.temperature = std::nan("")}), "temperature is nan, 0 to 100 wanted");
  EXPECT_EQ(message({.top_k = -1}), "top_k is -1, 0 or more wanted");
  EXPECT_EQ(message({.top_p = 0}), "top_p is 0, above 0, up to 1 wanted");
  EXPECT_EQ(message({.min_p = 1.5}), "min_p is 1.5, 0 to 1 wanted");
}

TEST(FinishReason, HasTheWireNames) {
  EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kNone), "");
}

}  // namespace
}  // namespace firstlight::request
