// SPDX-License-Identifier: Apache-2.0
#include "intake/config_tree.h"

#include <gtest/gtest.h>

#include "intake/test/spec_fixture.h"

namespace firstlight::intake {
namespace {

ConfigNode parse(const char* text) { return parse_config_tree(text).value(); }

TEST(ConfigTree, LeavesAreScalarsAndListsOfScalars) {
  const ConfigNode root = parse(R"({"a": 1, "b": {"c": null, "d": [1, 2], "e": {}}, "f": [{"g": "x"}, []], "h": []})");
  std::vector<std::string> paths;
  for (const ConfigLeaf& leaf : config_leaves(root)) paths.push_back(leaf.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"a", "b.c", "b.d", "b.e", "f[0].g", "f[1]", "h"}));
}

TEST(ConfigTree, ChangedValuesDifferAndLeafsAreFoundAgain) {
  ConfigNode root =
      parse(R"({"a": 1, "b": {"c": null, "d": [true, 2]}, "e": 0.5, "f": "x", "g": [], "h": {}, "i": false})");
  for (const ConfigLeaf& leaf : config_leaves(root)) {
    const ConfigNode before = config_at(root, leaf);
    const auto changed = changed_values(before);
    EXPECT_FALSE(changed.empty()) << leaf.path;
    for (const ConfigNode& value : changed) EXPECT_FALSE(value == before) << leaf.path;
  }
}

TEST(ConfigTree, BadTextIsAnError) {
  EXPECT_EQ(parse_config_tree("[1]").code(), StatusCode::kInvalidData);
  EXPECT_EQ(parse_config_tree("{").code(), StatusCode::kInvalidData);
  EXPECT_EQ(parse_config_tree("{\"a\": 1, \"a\": 2}").code(), StatusCode::kInvalidData);
}

std::string read(const char* config, const std::string& body) {
  return SpecRun{.spec = spec_around(body), .config = config}.failure();
}

TEST(ConfigProxy, NullMissingAndDefaults) {
  const char* config = R"({"model_type": "t", "n": null, "i": 3, "f": 2.0, "l": [5, 6], "o": {"p": 1}})";
  EXPECT_EQ(read(config, "assert(c.n == null and c.n ~= nil and c.absent == nil)"), "(it worked)");
  EXPECT_EQ(read(config, "assert(c:int('n', 9) == 9 and c:int('absent', 9) == 9 and c:int('i', 9) == 3)"),
            "(it worked)");
  EXPECT_EQ(read(config, "assert(c:int('absent', nil) == nil and c:count 'f' == 2 and c:number 'i' == 3.0)"),
            "(it worked)");
  EXPECT_EQ(read(config, "assert(#c.l == 2 and c.l[0] == 5 and c.l[2] == nil and c.o.p == 1)"), "(it worked)");
  EXPECT_EQ(read(config, "local s = '' for k in pairs(c) do s = s .. k end assert(s == 'model_typenifl' .. 'o', s)"),
            "(it worked)");
}

TEST(ConfigProxy, LongListsAreReadInTheirLength) {
  std::string config = R"({"model_type": "t", "l": [0)";
  for (int i = 1; i < 100'000; ++i) config += ",1";
  config += "]}";
  // An item at a time from one list; the list anew for each item is more work than a spec may do.
  EXPECT_EQ(read(config.c_str(), "local l, s = c.l, 0 for i = 0, #l - 1 do s = s + l[i] end assert(s == 99999)"),
            "(it worked)");
  EXPECT_NE(read(config.c_str(), "for i = 0, #c.l - 1 do local one = c.l[i] end").find("steps"), std::string::npos);
}

TEST(ConfigProxy, WrongTypesAndContradictionsNameTheKey) {
  const char* config = R"({"model_type": "t", "i": "3", "z": 0, "a": 1, "b": 2, "o": {"p": true}})";
  EXPECT_NE(read(config, "c:int 'i'").find("config key 'i': found \"3\", wanted an integer"), std::string::npos);
  EXPECT_NE(read(config, "c:count 'z'").find("config key 'z': found 0"), std::string::npos);
  EXPECT_NE(read(config, "c:int 'absent'").find("'absent' is missing"), std::string::npos);
  EXPECT_NE(read(config, "c:object('o'):number 'p'").find("'o.p': found true"), std::string::npos);
  EXPECT_NE(read(config, "c:any { 'a', 'b' }").find("contradict: 1 and 2"), std::string::npos);
  EXPECT_NE(read(config, "c:expect('a', { 2, 'x' }, 'why')").find("'a': found 1, wanted 2 or \"x\": why"),
            std::string::npos)
      << read(config, "c:expect('a', { 2, 'x' }, 'why')");
  EXPECT_EQ(read(config, "c:expect('a', { 2, 1 }) c:expect('absent', { 3 })"), "(it worked)");
  EXPECT_NE(read(config, "c:expect('a', 2)").find("unsupported: test.lua:6: config key 'a': found 1, wanted 2"),
            std::string::npos);
  EXPECT_NE(read(config, "c:waive('a', '')").find("no reason"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::intake
