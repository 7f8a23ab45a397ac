// SPDX-License-Identifier: Apache-2.0
#include "adapt/quant_policy.h"

#include <gtest/gtest.h>

namespace firstlight::adapt {
namespace {

TEST(QuantPolicy, WhatIsWrittenIsReadBack) {
  const QuantChoice fine = QuantChoice::parse("int4:32").value();
  const QuantPolicy policy = {{{.modules = "a.\"b\"", .choice = fine},
                               {.modules = "re:c\\.\\d+", .choice = fine},
                               {.modules = "d", .choice = {}},
                               {.modules = "e.*", .choice = QuantChoice::parse("mxfp4").value()}}};
  const std::string text = policy_text(policy, {"first", "second"});
  EXPECT_TRUE(text.starts_with("# first\n# second\n")) << text;
  const auto read = parse_policy(text, "p.toml");
  ASSERT_TRUE(read.ok()) << read.status().to_string() << "\n" << text;
  ASSERT_EQ(read->rules.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read->rules[i].modules, policy.rules[i].modules);
    EXPECT_EQ(read->rules[i].choice, policy.rules[i].choice) << i;
  }
  EXPECT_EQ(read->rules[2].said, "rule 2 of p.toml");
}

TEST(QuantPolicy, WhatNobodyKnowsIsRefusedByName) {
  const std::string head = "version = 1\n";
  const auto refused = [&](const std::string& text) {
    const auto found = parse_policy(text, "p.toml");
    return found.ok() ? "(read)" : found.status().message();
  };
  const std::pair<std::string, std::string> cases[] = {
      {"[[rule]]\nstore = \"int4\"\nmodules = [\"a\"]\n", "version = 1 wanted"},
      {head, "no [[rule]]"},
      {head + "other = 1\n", "key 'other'"},
      {head + "[[rule]]\nstore = \"int3\"\nmodules = [\"a\"]\n", "rule 1 of p.toml: store = \"int3\""},
      {head + "[[rule]]\nstore = \"int4\"\n", "rule 1 of p.toml: modules"},
      {head + "[[rule]]\nstore = \"int4\"\nmodules = [3]\n", "found 3"},
      {head + "[[rule]]\nstore = \"int4\"\nbits = 4\nmodules = [\"a\"]\n", "key 'bits'"},
      {head + "[[rule]]\nstore = \"int4\"\ngroup = 33\nmodules = [\"a\"]\n", "groups of 33"},
      {head + "[[rule]]\nstore = \"fp8\"\ngroup = 32\nmodules = [\"a\"]\n", "fp8 has its own"},
      {head + "[[rule]]\nstore = \"keep\"\ngroup = 32\nmodules = [\"a\"]\n", "no scales"},
      {head + "[[rule]\n", "p.toml: TOML, line 2"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_NE(refused(text).find(wanted), std::string::npos) << refused(text);
}

TEST(QuantPolicy, ChoicesByName) {
  for (const char* name : {"int8:128", "int4:32", "fp8", "mxfp4"}) EXPECT_EQ(QuantChoice::parse(name)->name(), name);
  EXPECT_EQ(QuantChoice::parse("int8")->group, kDefaultGroup);
  for (const char* name : {"", "int3", "int4:", "int4:x", "int4:16", "fp8:128", "bf16"}) {
    EXPECT_FALSE(QuantChoice::parse(name).ok()) << name;
  }
}

}  // namespace
}  // namespace firstlight::adapt
