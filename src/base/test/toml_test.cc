// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace firstlight {
namespace {

TEST(Toml, SaysWhatJsonSays) {
  const auto found = parse_toml(R"(
title = "a"
[sizes]
many = [1, 2.5, true]
when = 2026-11-30
[[rule]]
modules = ["x.*"]
[[rule]]
modules = []
)");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(*found, *parse_json(R"({"rule": [{"modules": ["x.*"]}, {"modules": []}],
                                     "sizes": {"many": [1, 2.5, true], "when": "2026-11-30"}, "title": "a"})"));
}

TEST(Toml, ErrorsHaveAPlace) {
  const auto refused = parse_toml("a = 1\nb = = 2\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(refused.status().message().find("line 2"), std::string::npos) << refused.status().message();
  EXPECT_FALSE(parse_toml("a = 1\na = 2\n").ok());
}

}  // namespace
}  // namespace firstlight
