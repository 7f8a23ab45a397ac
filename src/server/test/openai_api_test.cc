// SPDX-License-Identifier: Apache-2.0
#include "server/openai_api.h"

#include <gtest/gtest.h>

namespace firstlight::server {
namespace {

ApiRequest chat(const std::string& fields) {
  ApiRequest request;
  const std::string body =
      R"({"messages": [{"role": "user", "content": "hi"}])" + (fields.empty() ? "" : ", " + fields) + "}";
  const ApiError error = parse_request(Endpoint::kChat, body, {}, {}, request);
  EXPECT_TRUE(error.ok()) << error.message;
  return request;
}

ApiRequest completions(const std::string& body) {
  ApiRequest request;
  const ApiError error = parse_request(Endpoint::kCompletions, body, {}, {}, request);
  EXPECT_TRUE(error.ok()) << error.message;
  return request;
}

TEST(OpenAiApi, ReadsSamplingFields) {
  const ApiRequest request = chat(R"("temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1,
      "repetition_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2, "logit_bias": {"5": -100, "7": 1.5},
      "seed": 42, "n": 3, "max_tokens": 9, "stop": "end", "stop_token_ids": [1, 2], "ignore_eos": true)");
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(request.sampling.presence_penalty, -1);
  EXPECT_EQ(request.sampling.frequency_penalty, 2);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<int32_t, double>{{5, -100}, {7, 1.5}}));
  EXPECT_EQ(request.sampling.seed, 42u);
  EXPECT_EQ(request.sampling.num_logprobs, -1);
  EXPECT_EQ(request.num_choices, 3);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.stops, std::vector<std::string>{"end"});
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(request.ignore_eos);
}

TEST(OpenAiApi, NullIsAbsent) {
  const ApiRequest request = chat(R"("temperature": null, "top_p": null, "n": null, "stop": null, "stream": null,
      "seed": null, "logit_bias": null, "tools": null, "tool_choice": null, "response_format": null, "audio": null,
      "stream_options": null, "max_tokens": null, "max_completion_tokens": null, "something_new": null)");
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_EQ(request.num_choices, 1);
  EXPECT_EQ(request.max_tokens, -1);
  EXPECT_TRUE(request.tools.is_null());
}

TEST(OpenAiApi, TakesDefaultsFromTheModel) {
  ApiRequest request;
  request::SamplingParams defaults;
  defaults.temperature = 0.7;
  defaults.top_k = 20;
  const ApiError error = parse_request(Endpoint::kCompletions, R"({"prompt": "x", "top_k": 5})", defaults, {}, request);
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(request.sampling.temperature, 0.7);
  EXPECT_EQ(request.sampling.top_k, 5);
}

TEST(OpenAiApi, ReadsChatFields) {
  const ApiRequest request = chat(R"("model": "m", "stream": true, "stream_options": {"include_usage": true},
      "logprobs": true, "top_logprobs": 4, "max_tokens": 5, "max_completion_tokens": 6, "user": "u", "metadata": {},
      "store": false, "chat_template_kwargs": {"enable_thinking": false}, "add_generation_prompt": false,
      "response_format": {"type": "text"}, "modalities": ["text"], "tools": [{"type": "function", "function": {"name": "f"}}],
      "tool_choice": "auto", "parallel_tool_calls": true, "priority": -3, "cache_salt": "s")");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(request.client, "u");
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(request.logprobs);
  EXPECT_EQ(request.sampling.num_logprobs, 4);
  EXPECT_EQ(request.max_tokens, 6) << "the newer name decides";
  EXPECT_EQ(request.template_variables, (Json{{"enable_thinking", false}}));
  EXPECT_FALSE(request.add_generation_prompt);
  EXPECT_EQ(request.tools.size(), 1u);
}

TEST(OpenAiApi, ReadsPromptsOfAllKinds) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(completions(R"({"prompt": "a"})").prompts, std::vector<RawPrompt>{"a"});
  EXPECT_EQ(completions(R"({"prompt": ["a", "b"]})").prompts, (std::vector<RawPrompt>{"a", "b"}));
  EXPECT_EQ(completions(R"({"prompt": [1, 2]})").prompts, (std::vector<RawPrompt>{Ids{1, 2}}));
  EXPECT_EQ(completions(R"({"prompt": [[1], [2, 3]]})").prompts, (std::vector<RawPrompt>{Ids{1}, Ids{2, 3}}));
  const ApiRequest request =
      completions(R"({"prompt": "a", "logprobs": 0, "add_special_tokens": false, "best_of": 2, "n": 2})");
  EXPECT_TRUE(request.logprobs);
  EXPECT_EQ(request.sampling.num_logprobs, 0);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_TRUE(completions(R"({"prompt": "a", "echo": true, "suffix": ""})").echo);
}

struct BadCase {
  const char* fields;  // beside a good message or prompt
  const char* param;
};

TEST(OpenAiApi, RefusesChatFieldsByName) {
  const BadCase cases[] = {
      {R"("temperature": "hot")", "temperature"},
      {R"("temperature": -0.1)", "temperature"},
      {R"("temperature": 2.1)", "temperature"},
      {R"("top_p": 0)", "top_p"},
      {R"("top_p": 1.01)", "top_p"},
      {R"("top_k": -2)", "top_k"},
      {R"("top_k": 1.5)", "top_k"},
      {R"("min_p": 2)", "min_p"},
      {R"("repetition_penalty": 0)", "repetition_penalty"},
      {R"("presence_penalty": 3)", "presence_penalty"},
      {R"("frequency_penalty": [])", "frequency_penalty"},
      {R"("logit_bias": [1])", "logit_bias"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"-1": 1})", "logit_bias"},
      {R"("logit_bias": {"1": 101})", "logit_bias"},
      {R"("logit_bias": {"1": null})", "logit_bias"},
      {R"("seed": 1.5)", "seed"},
      {R"("seed": "1")", "seed"},
      {R"("n": 0)", "n"},
      {R"("n": 129)", "n"},
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_completion_tokens": -1)", "max_completion_tokens"},
      {R"("stop": 5)", "stop"},
      {R"("stop": [""])", "stop[0]"},
      {R"("stop": ["a", 1])", "stop[1]"},
      {R"("stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("stop_token_ids": 1)", "stop_token_ids"},
      {R"("stop_token_ids": [-1])", "stop_token_ids[0]"},
      {R"("stream": "yes")", "stream"},
      {R"("stream_options": {"include_usage": true})", "stream_options"},
      {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
      {R"("stream": true, "stream_options": {"other": 1})", "stream_options.other"},
      {R"("logprobs": 5)", "logprobs"},
      {R"("top_logprobs": 2)", "top_logprobs"},
      {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"("parallel_tool_calls": 1)", "parallel_tool_calls"},
      {R"("continue_final_message": 1)", "continue_final_message"},
      {R"("continue_final_message": true, "add_generation_prompt": true)", "add_generation_prompt"},
      {R"("chat_template_kwargs": 1)", "chat_template_kwargs"},
      {R"("chat_template_kwargs": {"tools": []})", "chat_template_kwargs.tools"},
      {R"("chat_template_kwargs": {"messages": null})", "chat_template_kwargs.messages"},
      {R"("modalities": ["text", "audio"])", "modalities"},
      {R"("audio": {})", "audio"},
      {R"("functions": [])", "functions"},
      {R"("reasoning_effort": "much")", "reasoning_effort"},
      {R"("include_reasoning": "no")", "include_reasoning"},
      {R"("model": 1)", "model"},
      {R"("temprature": 1)", "temprature"},
      {R"("messages": 1)", "messages"},
      {R"("priority": 1001)", "priority"},
      {R"("priority": "high")", "priority"},
      {R"("user": 1)", "user"},
      {R"("cache_salt": ["a"])", "cache_salt"},
  };
  for (const BadCase& bad : cases) {
    ApiRequest request;
    const std::string body = std::string(R"({"messages": [{"role": "user", "content": "hi"}], )") + bad.fields + "}";
    const ApiError error = parse_request(Endpoint::kChat, body, {}, {}, request);
    EXPECT_EQ(error.http_status, 400) << bad.fields;
    EXPECT_EQ(error.param, bad.param) << bad.fields;
    EXPECT_NE(error.message.find(bad.param), std::string::npos) << error.message;
  }
}

TEST(OpenAiApi, RefusesMessagesByName) {
  const BadCase cases[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": {"role": "user"}})", "messages"},
      {R"({"messages": ["hi"]})", "messages[0]"},
      {R"({"messages": [{"content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": 1, "content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "wizard", "content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "user"}]})", "messages[1].content"},
      {R"({"messages": [{"role": "user", "content": 1}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": ["a"]}]})", "messages[0].content[0]"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})", "messages[0].content[0].text"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
          {"type": "image_url", "image_url": {"url": "x"}}]}]})",
       "messages[0].content[1].type"},
      {R"({"messages": [{"role": "assistant", "content": null, "audio": {"id": "x"}}]})", "messages[0].audio"},
  };
  for (const BadCase& bad : cases) {
    ApiRequest request;
    const ApiError error = parse_request(Endpoint::kChat, bad.fields, {}, {}, request);
    EXPECT_EQ(error.http_status, 400) << bad.fields;
    EXPECT_EQ(error.param, bad.param) << error.message;
  }
  ApiRequest request;
  EXPECT_TRUE(parse_request(Endpoint::kChat,
                            R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
      {"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "x", "tool_call_id": "1"}]})",
                            {}, {}, request)
                  .ok());
}

TEST(OpenAiApi, RefusesCompletionFieldsByName) {
  const BadCase cases[] = {
      {R"({})", "prompt"},
      {R"({"prompt": null})", "prompt"},
      {R"({"prompt": 1})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": ["a", 1]})", "prompt[1]"},
      {R"({"prompt": [1, "a"]})", "prompt[1]"},
      {R"({"prompt": [1, -1]})", "prompt[1]"},
      {R"({"prompt": [1, 2.5]})", "prompt[1]"},
      {R"({"prompt": [[1], []]})", "prompt[1]"},
      {R"({"prompt": [[4294967296]]})", "prompt[0][0]"},
      {R"({"prompt": "a", "max_tokens": -1})", "max_tokens"},
      {R"({"prompt": "a", "logprobs": true})", "logprobs"},
      {R"({"prompt": "a", "logprobs": 21})", "logprobs"},
      {R"({"prompt": "a", "best_of": 4})", "best_of"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix"},
      {R"({"prompt": ["a", "b"], "n": 100})", "n"},
      {R"({"prompt": "a", "messages": []})", "messages"},
      {R"({"prompt": "a", "tools": []})", "tools"},
  };
  for (const BadCase& bad : cases) {
    ApiRequest request;
    const ApiError error = parse_request(Endpoint::kCompletions, bad.fields, {}, {}, request);
    EXPECT_EQ(error.http_status, 400) << bad.fields;
    EXPECT_EQ(error.param, bad.param) << error.message;
  }
}

// Both numbers, in full, and why.
TEST(OpenAiApi, SaysWhatCameAndWhatIsWanted) {
  const auto message = [](Endpoint endpoint, const std::string& body) {
    ApiRequest request;
    return parse_request(endpoint, body, {}, {.max_waiting = 4}, request).message;
  };
  const std::string chat = R"({"messages": [{"role": "user", "content": "a"}], )";
  EXPECT_EQ(message(Endpoint::kChat, chat + R"("max_tokens": 0})"), "max_tokens: 0, 1 to 2147483648 wanted");
  EXPECT_EQ(message(Endpoint::kChat, chat + R"("temperature": 2.5})"), "temperature: 2.5, 0 to 2 wanted");
  EXPECT_EQ(message(Endpoint::kChat, chat + R"("seed": 1180591620717411303424})"),
            "seed: 1.18059e+21, an integer of 64 bits wanted");
  EXPECT_EQ(message(Endpoint::kChat, chat + R"("n": 5})"),
            "n: 5 choices of all prompts together, but no more than 4 requests may wait here");
  EXPECT_EQ(message(Endpoint::kCompletions, R"({"prompt": ["a", "b"], "n": 3})"),
            "n: 6 choices of all prompts together, but no more than 4 requests may wait here");
  EXPECT_EQ(message(Endpoint::kCompletions, R"({"prompt": ["a", "b"], "n": 2})"), "");
}

TEST(OpenAiApi, RefusesBodiesThatAreNoObjects) {
  for (const std::string body :
       {"", "{", "[]", "null", "1", "\"x\"", "{\"prompt\": \"\xff\"}", "{\"prompt\": \"a\"} x"}) {
    ApiRequest request;
    EXPECT_EQ(parse_request(Endpoint::kCompletions, body, {}, {}, request).http_status, 400) << body;
  }
  ApiRequest request;
  const std::string deep = R"({"prompt": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(parse_request(Endpoint::kCompletions, deep, {}, {}, request).http_status, 400);
}

TEST(OpenAiApi, RefusesObjectsOfVeryManyMembersAtOnce) {
  std::string body = R"({"prompt": "a:::::\":", "logit_bias": {)";
  for (int i = 0; i < 200000; ++i) body += "\"" + std::to_string(i) + "\":0,";
  body += "\"x\":0}}";
  ApiRequest request;
  const ApiError error = parse_request(Endpoint::kCompletions, body, {}, {}, request);
  EXPECT_NE(error.message.find("members"), std::string::npos) << error.message;
  const std::string colons = R"({"prompt": ")" + std::string(20000, ':') + "\"}";
  EXPECT_TRUE(parse_request(Endpoint::kCompletions, colons, {}, {}, request).ok())
      << "colons in strings are no members";
}

}  // namespace
}  // namespace firstlight::server
