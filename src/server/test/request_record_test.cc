// SPDX-License-Identifier: Apache-2.0
#include "server/request_record.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/json.h"

namespace firstlight::server {
namespace {

constexpr int64_t kMs = 1'000'000;

RequestRecord sample() {
  RequestRecord record{.id = "abc", .route = "/v1/chat/completions", .peer = "127.0.0.1", .client = "someone"};
  record.status = 200;
  record.finish = "stop";
  record.choices = 1;
  record.prompt_tokens = 7;
  record.cached_tokens = 4;
  record.output_tokens = 3;
  record.arrived_ns = 10 * kMs;
  record.prepare_ns = 11 * kMs;
  record.submitted_ns = 13 * kMs;
  record.admitted_ns = 20 * kMs;
  record.first_token_ns = 50 * kMs;
  record.ended_ns = 90 * kMs;
  return record;
}

TEST(RequestRecord, TakesSaneIdsAndMakesOthers) {
  EXPECT_EQ(request_id_of("Client-1.2:x_y"), "Client-1.2:x_y");
  EXPECT_EQ(request_id_of(std::string(128, 'a')), std::string(128, 'a'));
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"), std::string("a\r\nX: 1"),
                                 std::string("\xC3\xA9"), std::string("<script>")}) {
    const std::string made = request_id_of(bad);
    EXPECT_TRUE(made.starts_with("req-")) << bad;
    EXPECT_EQ(made.size(), 20u);
    EXPECT_NE(made, request_id_of(bad)) << "fresh ones differ";
  }
}

TEST(RequestRecord, SpansFollowEachOther) {
  const auto document = parse_json(request_trace(sample()));
  ASSERT_TRUE(document.ok());
  const Json& events = (*document)["traceEvents"];
  const std::vector<std::tuple<std::string, double, double>> wanted = {{"wait", 0, 1000},
                                                                       {"prepare", 1000, 2000},
                                                                       {"queue", 3000, 7000},
                                                                       {"prefill", 10000, 30000},
                                                                       {"decode", 40000, 40000}};
  ASSERT_EQ(events.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(events[i]["name"], std::get<0>(wanted[i]));
    EXPECT_DOUBLE_EQ(events[i]["ts"], std::get<1>(wanted[i])) << "microseconds since it arrived";
    EXPECT_DOUBLE_EQ(events[i]["dur"], std::get<2>(wanted[i]));
  }
}

TEST(RequestRecord, WhatItNeverReachedHasNoSpan) {
  RequestRecord record = sample();
  record.admitted_ns = record.first_token_ns = 0;  // left while it waited
  const auto document = parse_json(request_trace(record));
  ASSERT_TRUE(document.ok());
  const Json& events = (*document)["traceEvents"];
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2]["name"], "queue");
  EXPECT_DOUBLE_EQ(events[2]["dur"], 77000) << "to the end";
}

TEST(RequestJournal, KeepsTracesOfThoseThatAsk) {
  RequestJournal journal(nullptr, false), all(nullptr, true);
  RequestRecord record = sample();
  journal.add(record);
  all.add(record);
  EXPECT_FALSE(journal.trace("abc"));
  EXPECT_TRUE(all.trace("abc"));
  record.wants_trace = true;
  for (int i = 0; i < 1001; ++i) {
    record.id = std::to_string(i);
    journal.add(record);
  }
  EXPECT_FALSE(journal.trace("0")) << "the oldest is forgotten";
  EXPECT_TRUE(journal.trace("1"));
  EXPECT_TRUE(journal.trace("1000"));
}

TEST(RequestJournal, WritesALineOfJson) {
  const std::string path = testing::TempDir() + "request_record_test.log";
  std::remove(path.c_str());
  {
    auto log = Log::open({.json = true, .file_path = path});
    ASSERT_TRUE(log.ok());
    RequestJournal journal(&*log, false);
    journal.add(sample());
    RequestRecord refused{.id = "r", .route = "/v1/completions"};
    refused.status = 503;
    refused.error = "not \"ready\"\n";
    journal.add(refused);
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  auto json = parse_json(line);
  ASSERT_TRUE(json.ok()) << line;
  for (const char* name :
       {"time", "level", "message", "id", "route", "status", "peer", "client", "prompt_tokens", "cached_tokens",
        "output_tokens", "total_s", "prepare_s", "queue_s", "first_token_s", "finish"}) {
    EXPECT_TRUE(json->contains(name)) << name << ": " << line;
  }
  EXPECT_EQ((*json)["message"], "request");
  EXPECT_DOUBLE_EQ((*json)["queue_s"], 0.007);
  EXPECT_DOUBLE_EQ((*json)["total_s"], 0.08);
  ASSERT_TRUE(std::getline(file, line));
  json = parse_json(line);
  ASSERT_TRUE(json.ok()) << line;
  EXPECT_EQ((*json)["error"], "not \"ready\"\n");
  EXPECT_FALSE(json->contains("prompt_tokens"));
}

}  // namespace
}  // namespace firstlight::server
