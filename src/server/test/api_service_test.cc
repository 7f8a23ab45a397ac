// SPDX-License-Identifier: Apache-2.0
// Routes and completions without sockets: what a client gets for each request, piece by piece.
#include "server/api_service.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/completion.h"
#include "server/test/fake_model.h"

namespace firstlight::server {
namespace {

class ApiServiceTest : public testing::Test {
 protected:
  using Exchange = std::shared_ptr<fake::RecordingExchange>;

  void SetUp() override { readiness.set_ready(); }

  ApiService& service() {
    if (!service_) service_ = std::make_unique<ApiService>(model, options, readiness, &metrics, nullptr);
    return *service_;
  }
  Exchange begin(const std::string& method, const std::string& path, const std::string& body = "",
                 const std::string& authorization = "", const std::string& type = "application/json") {
    auto exchange = std::make_shared<fake::RecordingExchange>();
    service().handle({method, path, authorization, type, body}, exchange);
    exchange->run();
    return exchange;
  }
  // To the end of the answer.
  Exchange finish(Exchange exchange) {
    for (int i = 0; i < 5000 && !exchange->is_over(); ++i) {
      generator.step();
      exchange->run();
    }
    EXPECT_EQ(exchange->num_answers, 1);
    return exchange;
  }
  Exchange post(const std::string& path, const std::string& body) { return finish(begin("POST", path, body)); }

  static Json json(const Exchange& exchange) {
    auto parsed = parse_json(exchange->body);
    EXPECT_TRUE(parsed.ok()) << exchange->body;
    return parsed.ok() ? *parsed : Json();
  }
  // The data of a stream's events; checks the end mark.
  static std::vector<Json> chunks(const Exchange& exchange) {
    std::vector<Json> list;
    std::string rest = exchange->body;
    bool done = false;
    while (!rest.empty()) {
      const size_t end = rest.find("\n\n");
      EXPECT_NE(end, std::string::npos);
      const std::string event = rest.substr(0, end);
      rest.erase(0, end + 2);
      EXPECT_FALSE(done) << "after the end mark: " << event;
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      done = event == "data: [DONE]";
      if (!done) list.push_back(Json::parse(event.substr(6)));
    }
    EXPECT_TRUE(done);
    return list;
  }
  static std::string retry_after(const Exchange& exchange) {
    for (const auto& [name, value] : exchange->headers) {
      if (name == "Retry-After") return value;
    }
    return "";
  }
  static std::string chat(const std::string& fields) {
    return R"({"messages": [{"role": "user", "content": "hi"}])" + (fields.empty() ? "" : ", " + fields) + "}";
  }

  fake::ScriptedGenerator generator;
  text::ChatTemplate chat_template = fake::chat_template();
  ServedModel model = fake::served_model(generator, &chat_template);
  ApiServiceOptions options{.api_key = "", .num_prepare_threads = 0};
  Readiness readiness;
  Metrics metrics;
  std::unique_ptr<ApiService> service_;
};

TEST_F(ApiServiceTest, AnswersTheSmallRoutes) {
  EXPECT_EQ(begin("GET", "/health")->status, 200);
  const auto models = json(begin("GET", "/v1/models"));
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["created"], 1700000000);
  EXPECT_EQ(json(begin("GET", "/v1/models/tiny"))["id"], "tiny");
  EXPECT_EQ(begin("GET", "/v1/models/other")->status, 404);
  EXPECT_EQ(begin("HEAD", "/health")->status, 200);
  const auto lost = begin("GET", "/v2/nothing");
  EXPECT_EQ(lost->status, 404);
  EXPECT_TRUE(json(lost)["error"]["message"].is_string());
  const auto wrong = begin("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_EQ(wrong->headers, (std::vector<std::pair<std::string, std::string>>{{"Allow", "POST"}}));
  EXPECT_EQ(begin("POST", "/health", "{}")->status, 405);
}

TEST_F(ApiServiceTest, ReadinessGatesCompletionsOnly) {
  readiness.set_not_ready("golden prompt is being computed");
  const auto ready = begin("GET", "/ready");
  EXPECT_EQ(ready->status, 503);
  EXPECT_EQ(json(ready)["reason"], "golden prompt is being computed");
  EXPECT_EQ(begin("GET", "/health")->status, 200);
  const auto refused = begin("POST", "/v1/chat/completions", chat(""));
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(json(refused)["error"]["code"], "not_ready");
  readiness.set_ready();
  EXPECT_EQ(begin("GET", "/ready")->status, 200);
  readiness.lose("gone");
  EXPECT_EQ(begin("GET", "/ready")->status, 503);
  EXPECT_EQ(generator.requests().size(), 0u);
}

TEST_F(ApiServiceTest, AsksForTheKey) {
  options.api_key = "secret";
  for (const char* header : {"", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret"}) {
    const auto refused = begin("GET", "/v1/models", "", header);
    EXPECT_EQ(refused->status, 401) << header;
    EXPECT_EQ(json(refused)["error"]["code"], "invalid_api_key");
    EXPECT_EQ(begin("POST", "/v1/completions", "{}", header)->status, 401);
  }
  EXPECT_EQ(begin("GET", "/v1/models", "", "Bearer secret")->status, 200);
  EXPECT_EQ(begin("GET", "/v1/models", "", "bearer secret")->status, 200);
  EXPECT_EQ(begin("GET", "/health")->status, 200);
  EXPECT_EQ(begin("GET", "/ready")->status, 200);
}

TEST_F(ApiServiceTest, ComparesSecretsOfAllLengths) {
  EXPECT_TRUE(equal_secrets("", ""));
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abcabc", "abc"));
  EXPECT_FALSE(equal_secrets("", "a"));
  EXPECT_FALSE(equal_secrets("a", ""));
  EXPECT_FALSE(equal_secrets("abd", "abc"));
}

TEST_F(ApiServiceTest, TakesJsonOnly) {
  EXPECT_EQ(begin("POST", "/v1/completions", "{}", "", "text/plain")->status, 415);
  EXPECT_EQ(begin("POST", "/v1/completions", "{}", "", "Application/JSON ; charset=utf-8")->status, 400);
  EXPECT_EQ(begin("POST", "/v1/completions", "{}", "", "")->status, 400);
}

// Whoever waits for a model can see why: no key, no model.
TEST_F(ApiServiceTest, ThePageIsAlwaysThere) {
  options.api_key = "secret";
  readiness.set_not_ready("not yet");
  const auto page = begin("GET", "/");
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(begin("GET", "/page/app.js")->status, 200);
  EXPECT_EQ(begin("GET", "/page/none.js")->status, 404);
  EXPECT_EQ(begin("GET", "/page/openapi.json")->status, 404);
  EXPECT_EQ(json(begin("GET", "/openapi.json"))["openapi"], "3.1.0");
  EXPECT_EQ(begin("POST", "/", "{}")->status, 405);
}

// Texts need the key but no model that is ready.
TEST_F(ApiServiceTest, TokenizesBeforeTheModelIsReady) {
  options.api_key = "secret";
  readiness.set_not_ready("not yet");
  for (const char* path : {"/tokenize", "/detokenize"}) {
    EXPECT_EQ(begin("POST", path, "{}")->status, 401) << path;
    EXPECT_EQ(begin("GET", path, "", "Bearer secret")->status, 405) << path;
  }
  const auto exchange = begin("POST", "/tokenize", R"({"prompt": "a"})", "Bearer secret");
  EXPECT_EQ(exchange->status, 200);
  EXPECT_EQ(exchange->num_answers, 1);
  EXPECT_EQ(json(exchange)["tokens"], Json::array({256, 97}));
  EXPECT_EQ(json(begin("POST", "/detokenize", R"({"tokens": [97]})", "Bearer secret"))["prompt"], "a");
  EXPECT_EQ(begin("POST", "/detokenize", "{}", "Bearer secret")->status, 400);
}

TEST_F(ApiServiceTest, AnswersChat) {
  const auto exchange = post("/v1/chat/completions", chat(R"("model": "tiny")"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json answer = json(exchange);
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "tiny");
  ASSERT_EQ(answer["choices"].size(), 1u);
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Hello, world");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
  const auto prompt = static_cast<int64_t>(generator.requests().at(0).prompt.size());
  EXPECT_EQ(answer["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  EXPECT_EQ(answer["usage"]["total_tokens"], prompt + 12);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(answer["usage"]["completion_tokens_details"],
            (Json{{"reasoning_tokens", 0}, {"accepted_prediction_tokens", 12}, {"rejected_prediction_tokens", 24}}));
}

TEST_F(ApiServiceTest, AnswersCompletions) {
  const Json answer = json(post("/v1/completions", R"({"prompt": "a", "max_tokens": 4})"));
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"][0]["text"], "Hell");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
  EXPECT_EQ(json(post("/v1/completions", R"({"prompt": "aé", "echo": true})"))["choices"][0]["text"], "aéHello, world");
}

// The shape of a chat stream: role, pieces, one finish per choice, usage, end mark; one id.
TEST_F(ApiServiceTest, StreamsChatInTheRightShape) {
  generator.script = [](const request::Request& request) {
    return fake::ids_of(request.id.ends_with("-0") ? "aé€ long" : "b");
  };
  const auto exchange =
      post("/v1/chat/completions", chat(R"("n": 2, "stream": true, "stream_options": {"include_usage": true})"));
  ASSERT_TRUE(exchange->streamed);
  EXPECT_TRUE(exchange->content_type.starts_with("text/event-stream"));
  const auto list = chunks(exchange);
  std::map<int64_t, std::string> text;
  std::map<int64_t, int> roles, finishes;
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["id"], list[0]["id"]);
    EXPECT_EQ(list[i]["object"], "chat.completion.chunk");
    if (i + 1 == list.size()) {
      EXPECT_TRUE(list[i]["choices"].empty());
      EXPECT_EQ(list[i]["usage"]["completion_tokens"], 11 + 1);
      continue;
    }
    EXPECT_TRUE(list[i].contains("usage") && list[i]["usage"].is_null());
    ASSERT_EQ(list[i]["choices"].size(), 1u);
    const Json& choice = list[i]["choices"][0];
    const int64_t index = choice["index"];
    EXPECT_EQ(finishes[index], 0) << "after the finish";
    if (choice["delta"].contains("role")) {
      EXPECT_EQ(text[index], "");
      ++roles[index];
    } else {
      EXPECT_EQ(roles[index], 1) << "the role comes first";
    }
    text[index] += choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) {
      EXPECT_EQ(choice["finish_reason"], "stop");
      EXPECT_TRUE(choice["delta"].empty());
      ++finishes[index];
    }
  }
  EXPECT_EQ(text, (std::map<int64_t, std::string>{{0, "aé€ long"}, {1, "b"}}));
  EXPECT_EQ(roles, (std::map<int64_t, int>{{0, 1}, {1, 1}}));
  EXPECT_EQ(finishes, (std::map<int64_t, int>{{0, 1}, {1, 1}}));
}

TEST_F(ApiServiceTest, StreamedCompletionsJoinToTheWhole) {
  for (const std::string fields :
       {R"("prompt": "a")", R"("prompt": ["a", "b"], "n": 2)", R"("prompt": "a", "stop": "wor")",
        R"("prompt": "a", "max_tokens": 3, "logprobs": 2)", R"("prompt": "é", "echo": true)",
        R"("prompt": ["é", "ab"], "n": 2, "max_tokens": 3, "logprobs": 2, "echo": true)",
        R"("prompt": "ab", "max_tokens": 0, "logprobs": 1, "echo": true)"}) {
    const Json whole = json(post("/v1/completions", "{" + fields + "}"));
    const auto list = chunks(post("/v1/completions", "{" + fields + R"(, "stream": true})"));
    std::map<size_t, std::string> text;
    std::map<size_t, Json> finish;
    std::map<size_t, size_t> tokens;
    for (const Json& chunk : list) {
      const Json& choice = chunk["choices"][0];
      const size_t index = choice["index"];
      EXPECT_FALSE(finish.contains(index));
      text[index] += choice["text"];
      if (!choice["finish_reason"].is_null()) finish[index] = choice["finish_reason"];
      if (!choice["logprobs"].is_null()) tokens[index] += choice["logprobs"]["tokens"].size();
    }
    ASSERT_EQ(text.size(), whole["choices"].size()) << fields;
    for (size_t i = 0; i < text.size(); ++i) {
      EXPECT_EQ(text[i], whole["choices"][i]["text"]) << fields;
      EXPECT_EQ(finish[i], whole["choices"][i]["finish_reason"]) << fields;
      if (!whole["choices"][i]["logprobs"].is_null()) {
        EXPECT_EQ(tokens[i], whole["choices"][i]["logprobs"]["tokens"].size());
      }
    }
  }
}

// As evaluation harnesses ask: the prompt's tokens alone, each with its log-probability and what was likeliest.
TEST_F(ApiServiceTest, ScoresAPromptWithoutAnAnswer) {
  const Json answer =
      json(post("/v1/completions", R"({"prompt": [97, 98, 98], "max_tokens": 0, "echo": true, "logprobs": 1})"));
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], "abb");
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::array({"a", "b", "b"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({nullptr, -0.25, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"], Json::array({nullptr, {{"a", -0.125}, {"b", -0.25}}, {{"b", -0.125}}}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1, 2}));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  const Json marked = json(
      post("/v1/completions", R"({"prompt": "<turn>a", "max_tokens": 0, "echo": true, "logprobs": 1})"))["choices"][0];
  EXPECT_EQ(marked["text"], "<turn>a");
  EXPECT_EQ(marked["logprobs"]["tokens"], Json::array({"<bos>", "<turn>", "a"}));
  EXPECT_EQ(marked["logprobs"]["text_offset"], Json::array({0, 0, 6}));
  post("/v1/completions", R"({"prompt": "a", "echo": true})");
  post("/v1/completions", R"({"prompt": "a", "logprobs": 1})");
  const auto requests = generator.requests();
  EXPECT_TRUE(requests.at(0).score_prompt);
  EXPECT_FALSE(requests.at(2).score_prompt || requests.at(3).score_prompt) << "nobody would see them";
}

TEST_F(ApiServiceTest, AStopStringEndsTheRequestInTheEngineToo) {
  generator.script = [](const request::Request&) { return std::vector<int32_t>(900, 'x'); };
  const auto exchange = begin("POST", "/v1/chat/completions", chat(R"("stop": ["xxx"])"));
  for (int i = 0; i < 4; ++i) {
    generator.step();
    exchange->run();
  }
  ASSERT_TRUE(exchange->is_over());
  EXPECT_EQ(json(exchange)["choices"][0]["message"]["content"], "");
  EXPECT_EQ(json(exchange)["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json(exchange)["usage"]["completion_tokens"], 3);
  EXPECT_EQ(generator.num_running(), 0u);
  EXPECT_EQ(generator.num_cancels(), 1);
}

TEST_F(ApiServiceTest, ANormalEndCancelsNothing) {
  post("/v1/chat/completions", chat(R"("n": 3)"));
  EXPECT_EQ(generator.num_cancels(), 0);
}

TEST_F(ApiServiceTest, LogprobsOfChatAreOnePerToken) {
  generator.script = [](const request::Request&) { return fake::ids_of("é!"); };
  for (const std::string stream : {"false", "true"}) {
    const auto exchange =
        post("/v1/chat/completions", chat(R"("logprobs": true, "top_logprobs": 2, "stream": )" + stream));
    Json content = Json::array();
    if (stream == "false") {
      content = json(exchange)["choices"][0]["logprobs"]["content"];
    } else {
      for (const Json& chunk : chunks(exchange)) {
        const Json& logprobs = chunk["choices"][0]["logprobs"];
        if (logprobs.is_null()) continue;
        for (const Json& entry : logprobs["content"]) content.push_back(entry);
      }
    }
    ASSERT_EQ(content.size(), 3u) << stream;
    EXPECT_EQ(content[0]["bytes"], Json::array({0xC3}));
    EXPECT_EQ(content[1]["bytes"], Json::array({0xA9}));
    EXPECT_EQ(content[2]["token"], "!");
    EXPECT_EQ(content[2]["logprob"], -0.5);
    ASSERT_EQ(content[2]["top_logprobs"].size(), 2u);
    EXPECT_EQ(content[2]["top_logprobs"][0]["token"], "!");
    EXPECT_EQ(content[2]["top_logprobs"][1]["logprob"], kLeastLogprob) << "minus infinity is no JSON";
  }
}

TEST_F(ApiServiceTest, LogprobsOfCompletions) {
  const Json answer = json(post("/v1/completions", R"({"prompt": "a", "max_tokens": 2, "logprobs": 1})"));
  const Json& logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::array({"H", "e"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({-0.5, -0.5}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (Json{{"H", -0.5}}));
}

TEST_F(ApiServiceTest, EachChoiceHasItsOwnSeed) {
  post("/v1/completions", R"({"prompt": ["a", "b"], "n": 2, "seed": 7})");
  const auto requests = generator.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].sampling.seed, 7u);
  EXPECT_EQ(requests[2].sampling.seed, 7u) << "a prompt gets what it would get alone";
  EXPECT_NE(requests[1].sampling.seed, requests[0].sampling.seed);
  EXPECT_EQ(requests[1].sampling.seed, requests[3].sampling.seed);
  EXPECT_EQ(requests[1].sampling.seed, choice_seed(7, 1));
  post("/v1/completions", R"({"prompt": "a", "n": 2})");
  EXPECT_FALSE(generator.requests().back().sampling.seed.has_value());
}

TEST_F(ApiServiceTest, PassesOnWhatTheEngineMustKnow) {
  post("/v1/chat/completions", chat(R"("temperature": 0, "max_tokens": 5, "stop_token_ids": [3], "ignore_eos": true)"));
  const auto request = generator.requests().at(0);
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.stop_token_ids, std::vector<int32_t>{3});
  EXPECT_TRUE(request.ignore_model_stops);
}

TEST_F(ApiServiceTest, BadRequestsAreNamedAndNeverStart) {
  for (const std::string body :
       {"", "{", "[1]", R"({"messages": []})", R"({"messages": [{"role": "user", "content": "refuse"}]})"}) {
    const auto exchange = post("/v1/chat/completions", body);
    EXPECT_EQ(exchange->status, 400) << body;
    EXPECT_EQ(json(exchange)["error"]["type"], "invalid_request_error");
  }
  const auto other = post("/v1/chat/completions", chat(R"("model": "gpt-4")"));
  EXPECT_EQ(other->status, 404);
  EXPECT_EQ(json(other)["error"]["code"], "model_not_found");
  EXPECT_EQ(generator.requests().size(), 0u);
}

// More texts than find a place in the queue are no reason to refuse them: they go on as places come free.
TEST_F(ApiServiceTest, EmbeddingsWaitForTheirOwnPlaces) {
  model.embeddings = ServedEmbeddings{.width = 2};
  generator.max_requests = 2;
  const Json answer = json(post("/v1/embeddings", R"({"input": [[97], [98], [99], [100], [101]]})"));
  ASSERT_EQ(answer["data"].size(), 5u) << answer;
  EXPECT_EQ(answer["data"][4]["embedding"], Json::array({1.0, 0.0}));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 5);
  generator.max_requests = 0;
  EXPECT_EQ(post("/v1/embeddings", R"({"input": "a"})")->status, 429);
  const Json fault = json(post("/v1/embeddings", R"({"input": [[97], [1000000000]]})"));
  EXPECT_EQ(fault["error"]["param"], "input[1]") << fault;
}

TEST_F(ApiServiceTest, AFullQueueIs429AndTakesBackWhatWasSubmitted) {
  generator.max_requests = 2;
  const auto exchange = begin("POST", "/v1/chat/completions", chat(R"("n": 3, "stream": true)"));
  EXPECT_EQ(exchange->status, 429);
  EXPECT_EQ(json(exchange)["error"]["type"], "rate_limit_error");
  EXPECT_EQ(json(exchange)["error"]["code"], "queue_full");
  EXPECT_EQ(retry_after(exchange), "1") << "nothing was measured";
  EXPECT_FALSE(exchange->streamed);
  generator.step();
  EXPECT_EQ(generator.num_running(), 0u);
  EXPECT_EQ(exchange->num_answers, 1);
}

TEST_F(ApiServiceTest, AFaultOfTheEngineBeforeTheFirstTokenHasAStatusOfItsOwn) {
  generator.step_status = internal_error("logits are not numbers");
  const auto exchange = post("/v1/chat/completions", chat(R"("stream": true)"));
  EXPECT_EQ(exchange->status, 500);
  EXPECT_FALSE(exchange->streamed);
  EXPECT_EQ(json(exchange)["error"]["type"], "server_error");
  generator.step_status = out_of_memory("state for 900 tokens");
  EXPECT_EQ(post("/v1/chat/completions", chat(""))->status, 400);
}

TEST_F(ApiServiceTest, AConstraintThatCannotBeFollowedIsTheFaultOfItsField) {
  generator.step_status = invalid_argument("too ambiguous");
  for (const std::string path : {"chat/", ""}) {
    const std::string prompt = path.empty() ? R"({"prompt": "a", "guided_grammar": "root ::= \"a\""})"
                                            : chat(R"("guided_grammar": "root ::= \"a\"")");
    const auto exchange = post("/v1/" + path + "completions", prompt);
    EXPECT_EQ(exchange->status, 400);
    EXPECT_EQ(json(exchange)["error"]["param"], "guided_grammar");
    EXPECT_EQ(json(exchange)["error"]["message"], "guided_grammar: too ambiguous");
  }
  EXPECT_TRUE(json(post("/v1/chat/completions", chat("")))["error"]["param"].is_null());
}

TEST_F(ApiServiceTest, AFaultInMidStreamIsSaidInTheStream) {
  const auto exchange = begin("POST", "/v1/chat/completions", chat(R"("stream": true, "n": 2)"));
  generator.step();
  exchange->run();
  generator.step_status = internal_error("broken");
  finish(exchange);
  const auto list = chunks(exchange);
  EXPECT_EQ(list.back()["error"]["message"], "broken");
  for (const Json& chunk : list) {
    if (chunk.contains("error")) continue;
    EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
  }
}

TEST_F(ApiServiceTest, AClientThatHangsUpCancelsItsChoices) {
  generator.script = [](const request::Request&) { return std::vector<int32_t>(900, 'x'); };
  const auto exchange = begin("POST", "/v1/chat/completions", chat(R"("n": 4, "stream": true)"));
  generator.step();
  exchange->run();
  exchange->end(ExchangeEnd::kGone);
  EXPECT_EQ(generator.num_cancels(), 4);
  generator.step();
  exchange->run();
  EXPECT_EQ(generator.num_running(), 0u);
}

TEST_F(ApiServiceTest, NothingStartsForAClientThatIsGone) {
  auto exchange = std::make_shared<fake::RecordingExchange>();
  service().handle({"POST", "/v1/chat/completions", "", "application/json", chat("")}, exchange);
  exchange->end(ExchangeEnd::kGone);  // while the prompt is prepared
  exchange->run();
  EXPECT_EQ(generator.requests().size(), 0u);
}

TEST_F(ApiServiceTest, TimeOutsAndStopsAreSaid) {
  generator.script = [](const request::Request&) { return std::vector<int32_t>(900, 'x'); };
  const auto late = begin("POST", "/v1/chat/completions", chat(""));
  late->end(ExchangeEnd::kTimedOut);
  EXPECT_EQ(late->status, 504);
  const auto stopped = begin("POST", "/v1/chat/completions", chat(R"("stream": true)"));
  generator.step();
  stopped->run();
  stopped->end(ExchangeEnd::kShutdown);
  EXPECT_TRUE(stopped->is_over());
  EXPECT_EQ(chunks(stopped).back()["error"]["type"], "server_error");
  generator.step();
  EXPECT_EQ(generator.num_running(), 0u);
}

TEST_F(ApiServiceTest, DrainingIsSaidAtOnce) {
  readiness.drain();
  const auto ready = begin("GET", "/ready");
  EXPECT_EQ(ready->status, 503);
  EXPECT_EQ(json(ready)["reason"], "draining");
  EXPECT_EQ(begin("GET", "/health")->status, 200);
  const auto refused = begin("POST", "/v1/chat/completions", chat(""));
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(json(refused)["error"]["code"], "draining");
  EXPECT_GE(std::stoi(retry_after(refused)), 1);
}

TEST_F(ApiServiceTest, ARequestMayAskForLessTimeAndNotForMore) {
  options.request_timeout_s = 60;
  const auto shorter = begin("POST", "/v1/chat/completions", chat(R"("timeout": 2.5)"));
  EXPECT_GT(shorter->time_left_s, 2);
  EXPECT_LE(shorter->time_left_s, 2.5);
  shorter->end(ExchangeEnd::kTimedOut);
  EXPECT_EQ(shorter->status, 504);
  EXPECT_NE(shorter->body.find("2.5 seconds"), std::string::npos) << shorter->body;
  EXPECT_EQ(begin("POST", "/v1/chat/completions", chat(""))->time_left_s, 0) << "the server's own limit holds";
  const auto longer = post("/v1/chat/completions", chat(R"("timeout": 61)"));
  EXPECT_EQ(longer->status, 400);
  EXPECT_EQ(json(longer)["error"]["param"], "timeout");
  EXPECT_NE(longer->body.find("60"), std::string::npos) << "both numbers: " << longer->body;
}

TEST_F(ApiServiceTest, AnswersCarryTheRequestsId) {
  const auto id_of = [](const Exchange& exchange) {
    EXPECT_EQ(exchange->added_headers.size(), 1u);
    EXPECT_EQ(exchange->added_headers[0].first, "X-Request-Id");
    return exchange->added_headers[0].second;
  };
  auto exchange = std::make_shared<fake::RecordingExchange>();
  service().handle({.method = "GET", .path = "/health", .request_id = "mine-1"}, exchange);
  EXPECT_EQ(id_of(exchange), "mine-1");
  EXPECT_TRUE(id_of(begin("GET", "/nothing")).starts_with("req-"));
}

TEST_F(ApiServiceTest, TracesARequestThatAsks) {
  auto exchange = std::make_shared<fake::RecordingExchange>();
  HttpRequest request{"POST", "/v1/chat/completions", "", "application/json", chat("")};
  request.request_id = "traced";
  request.wants_trace = true;
  service().handle(request, exchange);
  exchange->run();
  finish(exchange);
  const auto trace = begin("GET", "/v1/traces/traced");
  EXPECT_EQ(trace->status, 200);
  std::vector<std::string> names;
  const Json document = json(trace);
  for (const Json& event : document["traceEvents"]) names.push_back(event["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"wait", "prepare", "queue", "decode"})) << "the script has no prefill";
  post("/v1/chat/completions", chat(""));
  EXPECT_EQ(begin("GET", "/v1/traces/other")->status, 404);
}

TEST_F(ApiServiceTest, ErrorsAreCountedByClass) {
  post("/v1/completions", "{}");
  generator.max_requests = 0;
  begin("POST", "/v1/chat/completions", chat(""));
  generator.max_requests = 9;
  begin("POST", "/v1/chat/completions", chat(""))->end(ExchangeEnd::kGone);
  readiness.set_not_ready("x");
  begin("POST", "/v1/chat/completions", chat(""));
  service().count_failure(413);
  const auto exposition = begin("GET", "/metrics")->body;
  for (const char* line : {"invalid_request", "queue_full", "client_gone", "unavailable", "too_large"}) {
    EXPECT_NE(exposition.find("firstlight_errors_total{class=\"" + std::string(line) + "\"} 1"), std::string::npos)
        << line << "\n"
        << exposition;
  }
  EXPECT_NE(exposition.find("firstlight_ready 0"), std::string::npos);
}

TEST_F(ApiServiceTest, CountsWhatItDoes) {
  post("/v1/chat/completions", chat(""));
  post("/v1/completions", "{}");
  begin("GET", "/nothing/../here");
  const auto exposition = begin("GET", "/metrics");
  EXPECT_TRUE(exposition->content_type.starts_with("text/plain; version=0.0.4"));
  for (const char* line :
       {R"(firstlight_http_requests_total{code="200",route="/v1/chat/completions"} 1)",
        R"(firstlight_http_requests_total{code="400",route="/v1/completions"} 1)",
        R"(firstlight_http_requests_total{code="404",route="other"} 1)", "firstlight_http_requests_in_flight 0",
        "firstlight_time_to_first_token_seconds_count 1", "firstlight_inter_token_seconds_count 11"}) {
    EXPECT_NE(exposition->body.find(line), std::string::npos) << line << "\n" << exposition->body;
  }
}

}  // namespace
}  // namespace firstlight::server
