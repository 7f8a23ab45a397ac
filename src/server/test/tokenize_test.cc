// SPDX-License-Identifier: Apache-2.0
#include "server/tokenize.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/test/fake_model.h"

namespace firstlight::server {
namespace {

class TokenizeTest : public testing::Test {
 protected:
  Json tokenize(const std::string& body) { return answer_of(tokenize_json(model, body, answer)); }
  Json detokenize(const std::string& body) { return answer_of(detokenize_json(model, body, answer)); }
  ApiError refused(const std::string& body) {
    ApiError error = tokenize_json(model, body, answer);
    if (error.ok()) ADD_FAILURE() << body;
    return error;
  }
  Json answer_of(const ApiError& error) {
    EXPECT_TRUE(error.ok()) << error.message;
    return error.ok() ? Json::parse(answer) : Json();
  }

  fake::ScriptedGenerator generator;
  text::ChatTemplate chat_template = fake::chat_template();
  ServedModel model = fake::served_model(generator, &chat_template);
  std::string answer;
};

TEST_F(TokenizeTest, ATextGetsWhatTheTokenizerAdds) {
  const Json json = tokenize(R"({"model": "tiny", "prompt": "aé"})");
  EXPECT_EQ(json,
            Json::parse(R"({"count": 4, "max_model_len": 1024, "tokens": [256, 97, 195, 169], "token_strs": null})"));
  EXPECT_EQ(tokenize(R"({"prompt": "a", "add_special_tokens": false})")["tokens"], Json::array({97}));
  EXPECT_EQ(tokenize(R"({"prompt": "a", "return_token_strs": true})")["token_strs"], Json::array({"<bos>", "a"}));
  const Json nothing = tokenize(R"({"prompt": "", "add_special_tokens": false, "return_token_strs": true})");
  EXPECT_EQ(nothing["count"], 0);
  EXPECT_EQ(nothing["tokens"], Json::array());
  EXPECT_EQ(nothing["token_strs"], Json::array());
}

TEST_F(TokenizeTest, AChatIsWhatTheModelWouldGet) {
  const Json json = tokenize(R"({"messages": [{"role": "user", "content": "<end>"}], "return_token_strs": true})");
  const Json& tokens = json["tokens"];
  EXPECT_EQ(json["count"], tokens.size());
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), Json(fake::kEnd)), 1) << "text of messages is no control token";
  EXPECT_EQ(detokenize(dump_json({{"tokens", tokens}}))["prompt"], "<bos><turn>user:<end><end><turn>assistant:");
  const Json bare = tokenize(R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": false})");
  EXPECT_EQ(bare["tokens"].back(), fake::kEnd);
  const Json moody =
      tokenize(R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"mood": "x"}})");
  EXPECT_GT(moody["count"], bare["count"]);
}

TEST_F(TokenizeTest, LengthIsNoFault) {
  EXPECT_EQ(tokenize(R"({"prompt": ")" + std::string(3000, 'x') + R"("})")["count"], 3001);
}

TEST_F(TokenizeTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(refused("{").http_status, 400);
  EXPECT_EQ(refused("{}").param, "prompt");
  EXPECT_EQ(refused(R"({"prompt": "a", "messages": [{"role": "user", "content": "a"}]})").param, "prompt");
  EXPECT_EQ(refused(R"({"prompt": ["a"]})").param, "prompt");
  EXPECT_EQ(refused(R"({"prompt": "a", "temperature": 1})").param, "temperature");
  EXPECT_EQ(refused(R"({"messages": [{"role": "bad", "content": "a"}]})").param, "messages[0].role");
  EXPECT_EQ(refused(R"({"messages": [{"role": "user", "content": "refuse"}]})").param, "messages");
  EXPECT_EQ(refused(R"({"messages": [{"role": "user", "content": "a"}], "add_special_tokens": true})").param,
            "add_special_tokens");
  EXPECT_EQ(refused(R"({"prompt": "a", "model": "other"})").http_status, 404);
  model.chat_template = nullptr;
  EXPECT_EQ(refused(R"({"messages": [{"role": "user", "content": "a"}]})").param, "messages");
}

TEST_F(TokenizeTest, IdsBecomeText) {
  EXPECT_EQ(detokenize(R"({"tokens": [256, 195, 169, 258]})")["prompt"], "<bos>é<end>");
  EXPECT_EQ(detokenize(R"({"tokens": []})")["prompt"], "");
  for (const char* body : {"{}", R"({"tokens": 3})", R"({"tokens": [-1]})", R"({"tokens": [1.5]})",
                           R"({"tokens": [99999]})", R"({"tokens": ["a"]})"}) {
    const ApiError error = detokenize_json(model, body, answer);
    EXPECT_EQ(error.http_status, 400) << body;
    EXPECT_TRUE(error.param.starts_with("tokens")) << error.param;
  }
  EXPECT_EQ(detokenize_json(model, R"({"tokens": [1], "model": "other"})", answer).http_status, 404);
}

}  // namespace
}  // namespace firstlight::server
