// SPDX-License-Identifier: Apache-2.0
#include "text/stop_strings.h"

#include <gtest/gtest.h>

namespace firstlight::text {
namespace {

// The shown text for a stream cut into pieces of `step` bytes.
std::string shown(std::string_view stream, std::vector<std::string> stops, size_t step) {
  StopStrings filter(std::move(stops));
  std::string out;
  for (size_t i = 0; i < stream.size() && !filter.stopped(); i += step) out += filter.push(stream.substr(i, step));
  return out + filter.flush();
}

TEST(StopStrings, TheSameTextHoweverItIsCut) {
  const struct {
    std::string stream, wanted;
    std::vector<std::string> stops;
  } cases[] = {
      {"one two three", "one ", {"two"}},
      {"one two three", "one two three", {"four"}},
      {"aab", "a", {"ab"}},
      {"ab ab\n\nUser:", "ab ab", {"\n\nUser:", "<end>"}},
      {"held back en", "held back en", {"end"}},
      {"xyz", "", {"x"}},
      {"abc", "abc", {}},
      {"abc", "abc", {""}},
      {"abcd", "", {"abcd", "c"}},
      {"abcx", "ab", {"abcd", "c"}},
      {"abc", "ab", {"abcd", "c"}},
  };
  for (const auto& one : cases) {
    for (size_t step = 1; step <= one.stream.size(); ++step)
      EXPECT_EQ(shown(one.stream, one.stops, step), one.wanted) << one.stream << step;
  }
}

TEST(StopStrings, HoldsBackNoMoreThanItMust) {
  StopStrings filter({"stop"});
  EXPECT_EQ(filter.push("abcst"), "abc");
  EXPECT_EQ(filter.push("x"), "stx");
  EXPECT_EQ(filter.push("stop"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.matched(), "stop");
  EXPECT_EQ(filter.push("more"), "");
}

}  // namespace
}  // namespace firstlight::text
