// SPDX-License-Identifier: Apache-2.0
// The server on real sockets, with a generator that follows a script: keep-alive, streams, limits, time-outs, clients
// that are slow, rude or gone, and an orderly end.
#include "server/server.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "server/test/fake_model.h"
#include "server/test/socket_client.h"

namespace firstlight::server {
namespace {

using fake::SocketClient;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

const std::string kChat = R"({"messages": [{"role": "user", "content": "hi"}]})";
const std::string kStream = R"({"messages": [{"role": "user", "content": "hi"}], "stream": true})";

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

class ServerTest : public testing::Test {
 protected:
  void SetUp() override { readiness.set_ready(); }
  void TearDown() override { server_ = nullptr; }

  void start(std::chrono::microseconds pause = 200us) {
    generator.run_on_thread(pause);
    server_ = std::make_unique<Server>(model, options, readiness, &metrics, nullptr);
    const Status status = server_->start();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_GT(server_->port(), 0);
  }
  SocketClient connect() { return SocketClient(server_->port()); }
  void talk_forever() {
    generator.script = [](const request::Request&) { return std::vector<int32_t>(1000, 'x'); };
  }
  bool is_alive() {
    SocketClient client = connect();
    client.get("/health");
    return client.read_answer().status == 200;
  }

  fake::ScriptedGenerator generator;
  text::ChatTemplate chat_template = fake::chat_template();
  ServedModel model = fake::served_model(generator, &chat_template);
  ServerOptions options;
  Readiness readiness;
  Metrics metrics;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersManyRequestsOnOneConnection) {
  start();
  SocketClient client = connect();
  for (int i = 0; i < 3; ++i) {
    client.get("/health");
    const auto health = client.read_answer();
    EXPECT_EQ(health.status, 200);
    EXPECT_NE(health.head.find("Connection: keep-alive"), std::string::npos);
    client.post("/v1/chat/completions", kChat);
    const auto whole = client.read_answer();
    EXPECT_EQ(whole.status, 200);
    EXPECT_NE(whole.body.find("Hello, world"), std::string::npos);
    client.post("/v1/chat/completions", kStream);
    const auto stream = client.read_answer();
    EXPECT_NE(stream.head.find("text/event-stream"), std::string::npos);
    EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n")) << stream.body;
  }
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  SocketClient client = connect();
  const std::string health = "GET /health HTTP/1.1\r\n\r\n";
  client.send("GET /v1/models HTTP/1.1\r\n\r\n" + health + "GET /nothing HTTP/1.1\r\n\r\n" + health);
  EXPECT_NE(client.read_answer().body.find("\"tiny\""), std::string::npos);
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_answer().status, 404);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, TakesRequestsInSmallPieces) {
  start();
  SocketClient client = connect();
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: " + std::to_string(kChat.size()) + "\r\n\r\n" + kChat;
  for (const char byte : request) ASSERT_TRUE(client.send({&byte, 1}));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, AnswersOldAndWaitingClients) {
  start();
  SocketClient old = connect();
  old.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(kStream.size()) + "\r\n\r\n" +
           kStream);
  const std::string all = old.read_all();
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n"));
  SocketClient waiting = connect();
  waiting.send("POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: " +
               std::to_string(kChat.size()) + "\r\n\r\n");
  EXPECT_EQ(waiting.read_answer().status, 100);
  waiting.send(kChat);
  EXPECT_EQ(waiting.read_answer().status, 200);
  SocketClient head = connect();
  head.send("HEAD /health HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(head.read_all().ends_with("\r\n\r\n"));
}

TEST_F(ServerTest, StreamsTokensAsTheyCome) {
  talk_forever();
  start(2ms);
  SocketClient client = connect();
  client.post("/v1/chat/completions", kStream);
  client.read_until("\"role\"");
  client.read_until("\"content\":\"x\"");
  EXPECT_EQ(generator.num_running(), 1u) << "pieces came before the end";
}

TEST_F(ServerTest, NoticesClientsThatGoAwayInMidAnswer) {
  talk_forever();
  start(2ms);
  for (const std::string& body : {kStream, kChat}) {
    for (int way = 0; way < 3; ++way) {
      SocketClient client = connect();
      client.post("/v1/chat/completions", body);
      ASSERT_TRUE(eventually([&] { return generator.num_running() == 1; }));
      if (way == 0) client.close();
      if (way == 1) client.reset();
      if (way == 2) client.half_close();
      EXPECT_TRUE(eventually([&] { return generator.num_running() == 0; })) << way;
    }
  }
  EXPECT_EQ(generator.num_cancels(), 6);
  EXPECT_TRUE(is_alive());
}

TEST_F(ServerTest, AnswersAClientThatClosesItsHalfWhereTheAnswerIsReady) {
  start();
  SocketClient client = connect();
  client.get("/v1/models");
  client.half_close();
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(ServerTest, ManyStreamsRunAtOnceAndHealthAnswers) {
  generator.script = [](const request::Request&) { return fake::ids_of(std::string(60, 'y')); };
  start(1ms);
  std::vector<SocketClient> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(connect());
    clients.back().post("/v1/chat/completions", kStream);
  }
  EXPECT_TRUE(is_alive());
  SocketClient scraper = connect();
  scraper.get("/metrics");
  EXPECT_EQ(scraper.read_answer().status, 200);
  for (SocketClient& client : clients) {
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  }
}

TEST_F(ServerTest, RefusesMalformedRequestsAndLivesOn) {
  start();
  const std::string cases[] = {
      "hello\r\n\r\n",
      "GET / HTTP/7.0\r\n\r\n",
      std::string("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 15),
      "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      std::string(100, '\0') + "\r\n\r\n",
  };
  for (const std::string& bytes : cases) {
    SocketClient client = connect();
    client.send(bytes);
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
    EXPECT_NE(answer.body.find("\"error\""), std::string::npos);
    EXPECT_EQ(client.read_all(), "") << "the connection ends";
  }
  EXPECT_TRUE(is_alive());
}

TEST_F(ServerTest, BoundsHeadAndBody) {
  options.max_body_bytes = 1000;
  options.max_header_bytes = 1000;
  start();
  SocketClient declared = connect();
  declared.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 1001\r\n\r\n");
  const auto too_large = declared.read_answer();
  EXPECT_EQ(too_large.status, 413);
  EXPECT_NE(too_large.body.find("1001 bytes, at most 1000"), std::string::npos) << "both numbers: " << too_large.body;
  SocketClient pushing = connect();  // sends on, whatever the server says
  pushing.post("/v1/completions", std::string(2'000'000, 'x'));
  EXPECT_EQ(pushing.read_answer().status, 413);
  SocketClient chunked = connect();
  chunked.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send("64\r\n" + std::string(100, 'x') + "\r\n");
  EXPECT_EQ(chunked.read_answer().status, 413);
  SocketClient head = connect();
  head.send("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n");
  EXPECT_EQ(head.read_answer().status, 431);
  EXPECT_TRUE(is_alive());
}

TEST_F(ServerTest, DoesNotWaitForSlowClients) {
  options.header_timeout_s = 0.3;
  options.body_timeout_s = 0.3;
  options.idle_timeout_s = 0.3;
  start();
  SocketClient slow_head = connect();
  slow_head.send("GET /health HT");
  SocketClient slow_body = connect();
  slow_body.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
  SocketClient silent = connect();
  EXPECT_EQ(slow_head.read_answer().status, 408);
  EXPECT_EQ(slow_body.read_answer().status, 408);
  EXPECT_EQ(silent.read_all(), "");
}

TEST_F(ServerTest, ARequestHasAnEnd) {
  talk_forever();
  options.request_timeout_s = 0.3;
  start(5ms);
  SocketClient whole = connect();
  whole.post("/v1/chat/completions", kChat);
  EXPECT_EQ(whole.read_answer().status, 504);
  SocketClient stream = connect();
  stream.post("/v1/chat/completions", kStream);
  const auto answer = stream.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"timeout\""), std::string::npos);
  EXPECT_TRUE(eventually([&] { return generator.num_running() == 0; }));
}

TEST_F(ServerTest, RefusesConnectionsBeyondTheLimit) {
  options.max_connections = 2;
  start();
  SocketClient first = connect(), second = connect();
  first.get("/health");
  second.get("/health");
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(second.read_answer().status, 200);
  SocketClient third = connect();
  EXPECT_EQ(third.read_answer().status, 503);
  third.close();
  first.close();
  EXPECT_TRUE(eventually([&] { return is_alive(); })) << "a place is free again";
}

TEST_F(ServerTest, AsksForTheKey) {
  options.api_key = "k";
  start();
  SocketClient client = connect();
  client.post("/v1/chat/completions", kChat);
  EXPECT_EQ(client.read_answer().status, 401);
  client.post("/v1/chat/completions", kChat, "Authorization: Bearer k\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, AStopLetsRunningRequestsEnd) {
  generator.script = [](const request::Request&) { return fake::ids_of(std::string(100, 'y')); };
  start(2ms);
  SocketClient idle = connect();
  idle.get("/health");
  EXPECT_EQ(idle.read_answer().status, 200);
  SocketClient busy = connect();
  busy.post("/v1/chat/completions", kStream);
  ASSERT_TRUE(eventually([&] { return generator.num_running() == 1; }));
  server_->stop();
  EXPECT_EQ(idle.read_all(), "");
  // Whoever asks meanwhile learns what happens; nothing new begins.
  SocketClient asking = connect();
  asking.get("/ready");
  const auto ready = asking.read_answer();
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("draining"), std::string::npos) << ready.body;
  EXPECT_EQ(asking.read_all(), "") << "the connection is closed";
  SocketClient late = connect();
  late.post("/v1/chat/completions", kChat);
  const auto refused = late.read_answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos) << refused.head;
  EXPECT_EQ(generator.num_running(), 1u);
  late.close();
  asking.close();
  EXPECT_TRUE(busy.read_answer().body.ends_with("data: [DONE]\n\n"));
  server_->run();  // returns
  EXPECT_FALSE(connect().is_connected());
}

// Answered is not sent: an end cuts off nothing that is on its way to a slow reader.
TEST_F(ServerTest, ADrainSendsWhatHasBeenAnswered) {
  constexpr size_t kTurns = 1'000'000;  // some 6 MB, more than sockets hold
  start();
  SocketClient slow(server_->port(), 4096);
  std::string body = R"({"tokens": [257)";
  for (size_t i = 1; i < kTurns; ++i) body += ",257";
  slow.post("/detokenize", body + "]}");
  EXPECT_NE(slow.read_until("\r\n\r\n").find("keep-alive"), std::string::npos);
  server_->stop();
  ASSERT_TRUE(eventually([&] { return readiness.is_draining(); }));
  EXPECT_EQ(slow.read_all().size(), "<turn>"sv.size() * kTurns + R"({"prompt":""})"sv.size());
  slow.close();
  server_->run();
}

TEST_F(ServerTest, ADrainHasAnEnd) {
  talk_forever();
  options.drain_timeout_s = 0.2;
  start(10ms);
  SocketClient busy = connect();
  busy.post("/v1/chat/completions", kStream);
  ASSERT_TRUE(eventually([&] { return generator.num_running() == 1; }));
  server_->stop();
  EXPECT_NE(busy.read_answer().body.find("the server is stopping"), std::string::npos);
  busy.close();
  server_->run();
  EXPECT_TRUE(eventually([&] { return generator.num_running() == 0; }));
}

TEST_F(ServerTest, ASecondStopDoesNotWait) {
  talk_forever();
  options.drain_timeout_s = 100;
  start(10ms);
  SocketClient busy = connect();
  busy.post("/v1/chat/completions", kStream);
  ASSERT_TRUE(eventually([&] { return generator.num_running() == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  server_->stop();
  ASSERT_TRUE(eventually([&] { return readiness.is_draining(); }));
  server_->stop();
  EXPECT_NE(busy.read_answer().body.find("shutting_down"), std::string::npos);
  busy.close();
  server_->run();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(ServerTest, ARequestMayAskForLessTime) {
  talk_forever();
  start(10ms);
  SocketClient client = connect();
  client.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}], "timeout": 0.1})");
  EXPECT_EQ(client.read_answer().status, 504);
  EXPECT_TRUE(eventually([&] { return generator.num_running() == 0; }));
}

TEST_F(ServerTest, AnswersCarryTheClientsOwnId) {
  start();
  SocketClient client = connect();
  client.post("/v1/chat/completions", kStream, "X-Request-Id: mine-7\r\n");
  EXPECT_NE(client.read_answer().head.find("X-Request-Id: mine-7\r\n"), std::string::npos);
}

TEST_F(ServerTest, EndsWithRequestsRunning) {
  talk_forever();
  start(10ms);
  SocketClient busy = connect();
  busy.post("/v1/chat/completions", kStream);
  ASSERT_TRUE(eventually([&] { return generator.num_running() == 1; }));
  server_ = nullptr;
  EXPECT_TRUE(eventually([&] { return generator.num_running() == 0; }));
}

TEST_F(ServerTest, SaysWhyItCannotStart) {
  start();
  ServerOptions taken = options;
  taken.port = server_->port();
  Server second(model, taken, readiness, nullptr, nullptr);
  const Status status = second.start();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(std::to_string(taken.port)), std::string::npos);
  ServerOptions nowhere = options;
  nowhere.host = "no.such.host.invalid";
  Server third(model, nowhere, readiness, nullptr, nullptr);
  EXPECT_EQ(third.start().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace firstlight::server
