// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the server from the bytes of a connection to the answer, without sockets: the HTTP reader, the routes,
// the OpenAI bodies, template and tokenizer. Whatever comes, each request gets exactly one answer, errors are 4xx (5xx
// would be faults of our own), bodies are JSON, and nothing is left running.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/api_service.h"
#include "server/http_parser.h"
#include "server/test/fake_model.h"
#include "text/chat_template.h"

namespace firstlight::server {
namespace {

struct World {
  fake::ScriptedGenerator generator;
  text::ChatTemplate chat_template = fake::chat_template();
  Readiness readiness;
  std::unique_ptr<ApiService> service;

  World() {
    readiness.set_ready();
    generator.script = [](const request::Request&) { return fake::ids_of("a\xC3\xA9"); };
    service = std::make_unique<ApiService>(fake::served_model(generator, &chat_template),
                                           ApiServiceOptions{.num_prepare_threads = 0}, readiness, nullptr, nullptr);
  }
};

void check_stream(std::string_view body) {
  FL_CHECK(body.ends_with("data: [DONE]\n\n"));
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    FL_CHECK(end != std::string_view::npos && body.starts_with("data: "));
    const std::string_view data = body.substr(6, end - 6);
    FL_CHECK(data == "[DONE]" || parse_json(data).ok());
    body.remove_prefix(end + 2);
  }
}

void answer(World& world, HttpRequest request) {
  const auto exchange = std::make_shared<fake::RecordingExchange>();
  world.service->handle(std::move(request), exchange);
  exchange->run();
  for (int i = 0; i < 8 && world.generator.step(); ++i) exchange->run();
  FL_CHECK(exchange->num_answers == 1);
  FL_CHECK(exchange->status == 200 || (exchange->status >= 400 && exchange->status < 500));
  if (exchange->streamed) {
    check_stream(exchange->body);
  } else if (exchange->content_type == "application/json") {
    FL_CHECK(parse_json(exchange->body).ok());
  }
  world.generator.step();  // takes in cancels
  FL_CHECK(world.generator.num_running() == 0);
}

// Fed in two parts, the way it may arrive.
void feed(World& world, std::string_view bytes) {
  const HttpLimits limits = {.max_header_bytes = 4096, .max_body_bytes = 65536};
  HttpParser parser(limits);
  std::string received(bytes.substr(0, bytes.size() / 2));
  size_t num_taken = 0;
  HttpParser::State state = parser.feed(received, num_taken);
  FL_CHECK(num_taken <= received.size());
  if (state == HttpParser::State::kNeedMore) {
    received.erase(0, num_taken);
    received += bytes.substr(bytes.size() / 2);
    state = parser.feed(received, num_taken);
  }
  if (state == HttpParser::State::kReady) answer(world, parser.take());
  if (state == HttpParser::State::kFailed) FL_CHECK(parser.error_status() >= 400 && parser.error_status() < 500);
}

}  // namespace
}  // namespace firstlight::server

// The first byte says what the rest is: bytes of a connection, or (what a mutation of a body would rarely survive, for
// its length) the body of a chat or a completion.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firstlight::server;
  static World world;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'c') {
    answer(world, {"POST", "/v1/chat/completions", "", "application/json", std::string(rest)});
  } else if (data[0] == 't') {
    answer(world, {"POST", "/v1/completions", "", "application/json", std::string(rest)});
  } else {
    feed(world, rest);
  }
  return 0;
}
