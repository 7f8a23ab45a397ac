// SPDX-License-Identifier: Apache-2.0
// Chat answers with thoughts and tool calls, from token events to what a client gets, streamed and whole.
#include "server/chat_reading.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/api_service.h"
#include "server/completion.h"
#include "server/test/fake_model.h"

namespace firstlight::server {
namespace {

constexpr std::string_view kTemplate =
    "{% for t in tools or [] %}tool:{{ t.function.name }} {% endfor %}{% for m in messages %}<turn>{{ m.role }}:{{ "
    "m.content "
    "}}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{{ c.function.arguments | tojson }}</tool_call>"
    "{% endfor %}<end>{% endfor %}{% if enable_thinking is defined %}[{{ enable_thinking }}]{% endif %}"
    "{% if add_generation_prompt %}<turn>assistant:{% if open %}<think>\n{% endif %}{% endif %}";

constexpr const char* kTools = R"("tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
  {"type": "object", "properties": {"city": {"type": "string"}}}}}, {"type": "function", "function": {"name": "now"}}])";

constexpr const char* kCalls =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

class ChatReadingTest : public testing::Test {
 protected:
  void SetUp() override {
    readiness.set_ready();
    use("hermes");
  }
  void use(const std::string& name, std::vector<std::string> switches = {"enable_thinking"}) {
    static const auto files = text::shipped_chat_formats().value();
    for (const auto& file : files) {
      if (file.format.name != name) continue;
      text::ChatFormat format = text::forced_chat_format(file, files, {kTemplate, nullptr});
      format.effort_levels.clear();
      format.effort_switches = std::move(switches);
      model.chat_profile = make_chat_profile(std::move(format), model.tokenizer);
    }
  }
  std::shared_ptr<fake::RecordingExchange> post(const std::string& fields) {
    service = std::make_unique<ApiService>(model, options, readiness, &metrics, nullptr);
    auto exchange = std::make_shared<fake::RecordingExchange>();
    const std::string body =
        R"({"messages": [{"role": "user", "content": "hi"}])" + (fields.empty() ? "" : ", " + fields) + "}";
    service->handle(
        {.method = "POST", .path = "/v1/chat/completions", .content_type = "application/json", .body = body}, exchange);
    exchange->run();
    for (int i = 0; i < 5000 && !exchange->is_over(); ++i) {
      generator.step();
      exchange->run();
    }
    return exchange;
  }
  void say(const std::string& text) {
    generator.script = [text](const request::Request&) { return fake::ids_of(text); };
  }
  Json whole(const std::string& fields) {
    const auto exchange = post(fields);
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    return parse_json(exchange->body).value();
  }

  fake::ScriptedGenerator generator;
  text::ChatTemplate chat_template = fake::chat_template(kTemplate);
  ServedModel model = fake::served_model(generator, &chat_template);
  ApiServiceOptions options{.api_key = "", .num_prepare_threads = 0};
  Readiness readiness;
  Metrics metrics;
  std::unique_ptr<ApiService> service;
};

// The deltas of choice `index` put together as clients do.
Json joined(const std::string& stream, int64_t index) {
  Json message = {
      {"content", ""}, {"reasoning_content", ""}, {"tool_calls", Json::array()}, {"finish_reason", nullptr}};
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const std::string event = stream.substr(at + 6, end - at - 6);
    at = end + 2;
    if (event == "[DONE]") break;
    const Json chunk = Json::parse(event);
    for (const Json& choice : chunk["choices"]) {
      if (choice["index"] != index) continue;
      if (!choice["finish_reason"].is_null()) message["finish_reason"] = choice["finish_reason"];
      const Json& delta = choice["delta"];
      for (const char* field : {"content", "reasoning_content"}) {
        if (delta.contains(field)) message[field] = message[field].get<std::string>() + delta[field].get<std::string>();
      }
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        Json& calls = message["tool_calls"];
        if (call["index"] == calls.size()) {
          EXPECT_TRUE(call.contains("id") && call["type"] == "function");
          EXPECT_EQ(call["function"]["arguments"], "") << "the first piece has the name alone";
          calls.push_back(call);
          continue;
        }
        EXPECT_EQ(call["index"], calls.size() - 1);
        EXPECT_FALSE(call.contains("id") || call["function"].contains("name")) << "told once";
        Json& arguments = calls.back()["function"]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
    }
  }
  return message;
}

TEST_F(ChatReadingTest, ToolCallsOfAWholeAnswer) {
  say("<think>\nTwo calls.\n</think>\n\nLet me look.\n" + std::string(kCalls));
  const Json answer = whole(kTools);
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me look.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Two calls.");
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"]["name"], "get_weather");
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"city": "Köln"})");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  const int64_t thoughts = answer["usage"]["completion_tokens_details"]["reasoning_tokens"].get<int64_t>();
  EXPECT_EQ(thoughts, static_cast<int64_t>(std::string("\nTwo calls.\n</think>").size()) + 1)
      << "from the token that completes the mark to the one that completes its end";
}

TEST_F(ChatReadingTest, StreamedEqualsWhole) {
  say("<think>\nTwo calls.\n</think>\n\nLet me look.\n" + std::string(kCalls));
  for (const char* more : {"", R"(, "include_reasoning": false)", R"(, "parallel_tool_calls": false)", R"(, "n": 2)",
                           R"(, "max_tokens": 110)", R"(, "stop": ["look"])", R"(, "logprobs": true)"}) {
    SCOPED_TRACE(more);
    const Json answer = whole(std::string(kTools) + more);
    const std::string stream = post(std::string(kTools) + more + R"(, "stream": true)")->body;
    for (const Json& choice : answer["choices"]) {
      const Json got = joined(stream, choice["index"].get<int64_t>());
      const Json& message = choice["message"];
      EXPECT_EQ(got["finish_reason"], choice["finish_reason"]);
      EXPECT_EQ(got["content"], message["content"].is_null() ? Json("") : message["content"]);
      EXPECT_EQ(got["reasoning_content"], message.value("reasoning_content", ""));
      const Json calls = message.value("tool_calls", Json::array());
      ASSERT_EQ(got["tool_calls"].size(), calls.size());
      for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(got["tool_calls"][i]["function"], calls[i]["function"]);
    }
  }
}

TEST_F(ChatReadingTest, ContentIsNullBesideCallsAlone) {
  say(kCalls);
  EXPECT_TRUE(whole(kTools)["choices"][0]["message"]["content"].is_null());
}

TEST_F(ChatReadingTest, WithoutToolsCallsAreText) {
  say(kCalls);
  for (const std::string& fields : {std::string(), std::string(kTools) + R"(, "tool_choice": "none")"}) {
    const Json answer = whole(fields);
    EXPECT_EQ(answer["choices"][0]["message"]["content"], kCalls);
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  }
}

TEST_F(ChatReadingTest, OneCallCancelsTheRest) {
  say(std::string(kCalls) + "and more");
  const Json answer = whole(std::string(kTools) + R"(, "parallel_tool_calls": false)");
  EXPECT_EQ(answer["choices"][0]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(generator.num_cancels(), 1);
}

TEST_F(ChatReadingTest, ACallThatWasAskedForByNameIsOneAndNoReasonToStop) {
  say(kCalls);
  const std::string named =
      std::string(kTools) + R"(, "tool_choice": {"type": "function", "function": {"name": "get_weather"}})";
  const Json choice = whole(named)["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_NE(generator.requests().back().mask, nullptr);
  const Json streamed = joined(post(named + R"(, "stream": true)")->body, 0);
  EXPECT_EQ(streamed["finish_reason"], "stop");
  EXPECT_EQ(streamed["tool_calls"].size(), 1u);
  EXPECT_EQ(whole(std::string(kTools) + R"(, "tool_choice": "required")")["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(ChatReadingTest, AContinuedCallComesBackFromItsBeginning) {
  const std::string begun = "Well. <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n";
  for (const std::string& cut : {std::string("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"ci"),
                                 std::string("<tool_call>\n{\"name\": \"get_w"), std::string("<tool_")}) {
    const std::string call =
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
    say(call.substr(cut.size()));
    for (const char* stream : {"false", "true"}) {
      const Json messages =
          Json::array({{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", begun + cut}}});
      service = std::make_unique<ApiService>(model, options, readiness, &metrics, nullptr);
      auto exchange = std::make_shared<fake::RecordingExchange>();
      const std::string body = "{\"messages\": " + dump_json(messages) +
                               ", \"continue_final_message\": true, \"stream\": " + stream + ", " + kTools + "}";
      service->handle(
          {.method = "POST", .path = "/v1/chat/completions", .content_type = "application/json", .body = body},
          exchange);
      for (exchange->run(); !exchange->is_over(); exchange->run()) generator.step();
      ASSERT_EQ(exchange->status, 200) << exchange->body;
      const bool is_streamed = stream == std::string("true");
      const Json answer = is_streamed ? Json() : parse_json(exchange->body).value();
      const Json message = is_streamed ? joined(exchange->body, 0) : answer["choices"][0]["message"];
      ASSERT_EQ(message["tool_calls"].size(), 1u) << cut << " " << exchange->body;
      EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "get_weather");
      EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"city": "Ulm"})");
      EXPECT_TRUE(message["content"].is_null() || message["content"] == "") << message["content"];
    }
  }
}

TEST_F(ChatReadingTest, ACutCallKeepsItsArguments) {
  say(kCalls);
  const size_t cut = std::string(kCalls).find("öln");
  const Json answer = whole(std::string(kTools) + ", \"max_tokens\": " + std::to_string(cut));
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], R"({"city": "K)");
}

TEST_F(ChatReadingTest, StopStringsCutTextAlone) {
  say("<think>a look</think>Then look " + std::string(kCalls));
  const Json answer = whole(std::string(kTools) + R"(, "stop": ["look", "city"])");
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning_content"], "a look");
  EXPECT_EQ(choice["message"]["content"], "Then ");
  EXPECT_EQ(choice["finish_reason"], "stop");
  say(kCalls);
  EXPECT_EQ(whole(std::string(kTools) + R"(, "stop": ["city"])")["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(ChatReadingTest, LogprobsAreOnePerToken) {
  say("<think>a</think>b" + std::string(kCalls));
  const Json answer = whole(std::string(kTools) + R"(, "logprobs": true)");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["content"].size(), answer["usage"]["completion_tokens"].get<size_t>());
}

TEST_F(ChatReadingTest, ThoughtsMayBeLeftOutAndStillCount) {
  say("<think>hm</think>yes");
  const Json answer = whole(R"("include_reasoning": false)");
  EXPECT_FALSE(answer["choices"][0]["message"].contains("reasoning_content"));
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "yes");
  EXPECT_GT(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(ChatReadingTest, APromptMayOpenTheThoughts) {
  say("hm\n</think>\n\nyes");
  const Json answer = whole(R"("chat_template_kwargs": {"open": true})");
  EXPECT_EQ(answer["choices"][0]["message"]["reasoning_content"], "hm");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "yes");
}

// <turn> and <end> are special tokens of the tokenizer.
TEST_F(ChatReadingTest, MarksThatAreSpecialTokensAreSeen) {
  const auto file = text::read_chat_format(
      "[recognise]\ntemplate = \"x\"\n[calls]\ncall = \"<turn>{name}<args>{arguments}<end>\"\n", "special");
  ASSERT_TRUE(file.ok()) << file.status().message();
  model.chat_profile = make_chat_profile(file->format, model.tokenizer);
  generator.script = [](const request::Request&) {
    std::vector<int32_t> ids = fake::ids_of("Look:");
    ids.push_back(fake::kBos);  // hidden as ever
    ids.push_back(fake::kTurn);
    for (const int32_t id : fake::ids_of("now<args>{}")) ids.push_back(id);
    ids.push_back(fake::kEnd);
    return ids;
  };
  const Json message = whole(kTools)["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Look:");
  ASSERT_EQ(message["tool_calls"].size(), 1u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "now");
  EXPECT_EQ(whole("")["choices"][0]["message"]["content"], "Look:now<args>{}") << "no tools, no marks";
}

TEST_F(ChatReadingTest, CallsAndResultsGoIntoThePrompt) {
  say("ok");
  const std::string body = R"({"messages": [{"role": "user", "content": "hi"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
     "function": {"name": "now", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "noon"}]})";
  service = std::make_unique<ApiService>(model, options, readiness, &metrics, nullptr);
  auto exchange = std::make_shared<fake::RecordingExchange>();
  service->handle({.method = "POST", .path = "/v1/chat/completions", .content_type = "application/json", .body = body},
                  exchange);
  exchange->run();
  ASSERT_EQ(generator.requests().size(), 1u) << exchange->body;
  const std::string prompt = model.tokenizer.decode(generator.requests()[0].prompt, {.skip_special = false});
  EXPECT_EQ(prompt,
            "<turn>user:hi<end><turn>assistant:<tool_call>now{\"a\": 1}</tool_call><end>"
            "<turn>tool:noon<end><turn>assistant:");
}

TEST_F(ChatReadingTest, EffortFollowsWhatThePromptsKnow) {
  say("ok");
  const auto prompt = [&](const std::string& fields) {
    const auto exchange = post(fields);
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    return model.tokenizer.decode(generator.requests().back().prompt);
  };
  EXPECT_NE(prompt(R"("reasoning_effort": "none")").find("[False]"), std::string::npos);
  EXPECT_NE(prompt(R"("reasoning_effort": "low")").find("[True]"), std::string::npos);
  EXPECT_NE(prompt(R"("reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": false})").find("[False]"),
            std::string::npos);
  use("hermes", {});
  const auto refused = post(R"("reasoning_effort": "low")");
  EXPECT_EQ(refused->status, 400);
  EXPECT_NE(refused->body.find("reasoning_effort"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::server
