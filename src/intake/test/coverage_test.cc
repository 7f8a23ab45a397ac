// SPDX-License-Identifier: Apache-2.0
// Coverage on a spec made for it: what counts as bound, waived, unknown, unbound and missing.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "base/file_map.h"
#include "intake/test/spec_fixture.h"

namespace firstlight::intake {
namespace {

using tensor::DType;

class Coverage : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("firstlight_spec_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".lua"))
                .string();
  }
  void TearDown() override { std::remove(path_.c_str()); }

  Result<Model> load(const std::string& body, const std::string& config, std::vector<TensorHeader> extra = {},
                     std::vector<std::string> allow = {}) {
    FL_CHECK(write_file(path_, spec_around(body)).ok());
    std::vector<TensorHeader> headers = {{"e", DType::kF32, {8, 4}}};
    headers.insert(headers.end(), extra.begin(), extra.end());
    return trace_model({.config = config, .generation_config = "", .quantisation = ""}, &headers,
                       {.spec_file = path_, .allow_unbound = std::move(allow)});
  }

  std::string path_;
};

TEST_F(Coverage, TouchedIsNotBound) {
  const std::string config = R"({"model_type": "t", "eps": 0.5})";
  const auto unused = load("local e = c.eps", config);
  ASSERT_FALSE(unused.ok());
  EXPECT_NE(unused.status().message().find("1 config keys are read without effect: eps"), std::string::npos)
      << unused.status().message();
  EXPECT_TRUE(load("x = rms_norm(x, { eps = c.eps })", config).ok());
  EXPECT_FALSE(load("local dead = rms_norm(x, { eps = c.eps })", config).ok());
  EXPECT_TRUE(load("if c.eps ~= 0.5 then error 'only 0.5' end", config).ok());  // refused when changed: bound
  EXPECT_TRUE(load("fact('eps', c.eps)", config).ok());
  EXPECT_TRUE(load("c:waive('eps', 'it is a test')", config).ok());
}

// What is refused because it is made up proves nothing of the values that the spec knows.
TEST_F(Coverage, AValueThatIsCheckedAndDroppedIsNotBound) {
  const std::string name = R"({"model_type": "t", "act": "silu"})";
  const auto dropped = load("require 'std.activation'(c:string 'act')", name);
  EXPECT_EQ(dropped.status().message(), path_ + ": 1 config keys are read without effect: act");
  EXPECT_TRUE(load("x = require 'std.activation'(c:string 'act')(x)", name).ok());
  EXPECT_TRUE(load("c:expect('act', 'silu')", name).ok()) << "one value, and no other";
  const std::string own = "local known = { silu = 1, gelu = 2 }; local k = known[c.act] or error('unknown') ";
  EXPECT_FALSE(load(own, name).ok()) << "the words of whoever refuses are what it knows";
  EXPECT_TRUE(load(own + "x = x * k", name).ok());
  EXPECT_TRUE(load("if c.act ~= 'silu' then unsupported 'another' end", name).ok());
  const std::string wants =
      "if c.act == 'gelu' then x = x * c:number 'tanh' elseif c.act ~= 'silu' then error 'no' end";
  EXPECT_TRUE(load(wants, name).ok()) << "gelu is known, and wants another key besides";
  const std::string list = R"({"model_type": "t", "acts": ["silu", "silu", "gelu"]})";
  const std::string every = "local last for i = 0, #c.acts - 1 do last = require 'std.activation'(c.acts[i]) end ";
  EXPECT_FALSE(load(every, list).ok());
  EXPECT_TRUE(load(every + "x = last(x)", list).ok());
  const std::string both = "{ 'silu', 'gelu' }";
  EXPECT_TRUE(load("c:expect('act', " + both + ")", name).ok()) << "two names of one thing, and the spec says so";
}

TEST_F(Coverage, UnknownKeysStopTheLoadAndCanBeAdmitted) {
  const std::string config = R"({"model_type": "t", "a": 1, "o": {"b": [1], "c": null}})";
  const auto refused = load("", config);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("a, o.b, o.c"), std::string::npos);
  const auto model = load("c:waive('o', 'a whole object')", config, {}, {"a"});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->coverage.config.waived.at("o"), "a whole object");
  EXPECT_TRUE(model->coverage.config.waived.contains("a"));
  EXPECT_TRUE(model->warnings.empty());
  const auto idle = load("c:waive('o', 'a whole object')", config, {}, {"a", "misspelt"});
  ASSERT_TRUE(idle.ok());
  ASSERT_EQ(idle->warnings.size(), 1u);
  EXPECT_NE(idle->warnings[0].find("--allow-unbound misspelt"), std::string::npos);
}

TEST_F(Coverage, TensorsCountWhenAlive) {
  const std::string config = R"({"model_type": "t"})";
  const std::vector<TensorHeader> extra = {{"n", DType::kF32, {4}}};
  EXPECT_NE(load("", config, extra).status().message().find("1 tensors are unbound: n"), std::string::npos);
  EXPECT_FALSE(load("local dead = x * w('n', { 4 })", config, extra).ok());
  EXPECT_TRUE(load("x = x * w('n', { 4 })", config, extra).ok());
  EXPECT_TRUE(load("w:waive('n', 'a test')", config, extra).ok());
  EXPECT_FALSE(load("w:waive('*', 'no patterns')", config, extra).ok());
  EXPECT_TRUE(load("", config, extra, {"n"}).ok());
}

TEST_F(Coverage, MissingTensorsAreAllListed) {
  const auto model = load("x = x * w('a', { 4 }) * w('b', { 4 })", R"({"model_type": "t"})");
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("2 tensors are missing: a, b"), std::string::npos);
}

TEST_F(Coverage, WaiversOfLayersHoldForTheirRangeAlone) {
  const std::vector<TensorHeader> extra = {{"l.4.a", DType::kF32, {4}}, {"l.5.a", DType::kF32, {4}}};
  EXPECT_TRUE(load("w:waive_layers('l', 4, 5, 'a test')", R"({"model_type": "t"})", extra).ok());
  const auto model = load("w:waive_layers('l', 5, 9, 'a test')", R"({"model_type": "t"})", extra);
  EXPECT_NE(model.status().message().find("unbound: l.4.a"), std::string::npos);
}

TEST_F(Coverage, WrongShapesNameTensorFoundAndWanted) {
  const auto model = load("x = x * w('n', { 4 })", R"({"model_type": "t"})", {{"n", DType::kF32, {5}}});
  EXPECT_NE(model.status().message().find("n: shape [5], wanted [4]"), std::string::npos) << model.status().message();
  const auto unknown = load("x = x * w('n', { 4 })", R"({"model_type": "t"})", {{"n", std::nullopt, {4}}});
  EXPECT_EQ(unknown.code(), StatusCode::kUnsupported);
}

TEST_F(Coverage, EndsOfTextAreTheUnion) {
  FL_CHECK(write_file(path_, spec_around("fact('eos_token_id', c.eos_token_id)")).ok());
  const std::vector<TensorHeader> headers = {{"e", DType::kF32, {8, 4}}};
  const auto model = trace_model({.config = R"({"model_type": "t", "eos_token_id": 2})",
                                  .generation_config = R"({"eos_token_id": [2, 7], "temperature": 0.6})",
                                  .quantisation = ""},
                                 &headers, {.spec_file = path_});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->tokens.eos.at(2), "config.json, generation_config.json");
  EXPECT_EQ(model->tokens.eos.at(7), "generation_config.json");
}

}  // namespace
}  // namespace firstlight::intake
