// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <gtest/gtest.h>

#include <thread>

namespace firstlight {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, CountersAddUpAcrossThreadsAndCalls) {
  Metrics metrics;
  Counter first = metrics.counter("tokens_total", "tokens made", {{"kind", "decode"}});
  Counter other = metrics.counter("tokens_total", "tokens made", {{"kind", "prompt"}});
  std::thread thread([&metrics] {
    Counter same = metrics.counter("tokens_total", "tokens made", {{"kind", "decode"}});
    for (int i = 0; i < 1000; ++i) same.add();
  });
  for (int i = 0; i < 1000; ++i) first.add();
  thread.join();
  EXPECT_EQ(first.value(), 2000);
  EXPECT_EQ(other.value(), 0);
  EXPECT_TRUE(has_line(metrics.exposition(), "tokens_total{kind=\"decode\"} 2000"));
}

TEST(Metrics, ExpositionOfEachKind) {
  Metrics metrics;
  metrics.gauge("queue_length", "requests waiting").set(3);
  Histogram histogram = metrics.histogram("ttft_seconds", "time to first token", {0.1, 1});
  histogram.observe(0.05);
  histogram.observe(0.5);
  histogram.observe(5);
  const std::string text = metrics.exposition();
  EXPECT_TRUE(has_line(text, "# HELP queue_length requests waiting"));
  EXPECT_TRUE(has_line(text, "# TYPE queue_length gauge"));
  EXPECT_TRUE(has_line(text, "queue_length 3"));
  EXPECT_TRUE(has_line(text, "# TYPE ttft_seconds histogram"));
  EXPECT_TRUE(has_line(text, "ttft_seconds_bucket{le=\"1\"} 2"));
  EXPECT_TRUE(has_line(text, "ttft_seconds_bucket{le=\"+Inf\"} 3"));
  EXPECT_TRUE(has_line(text, "ttft_seconds_count 3"));
}

TEST(Metrics, LabelValuesAreEscaped) {
  Metrics metrics;
  metrics.gauge("model_loaded", "1 when loaded", {{"model", "a\"b\\c\nd"}}).set(1);
  EXPECT_TRUE(has_line(metrics.exposition(), R"(model_loaded{model="a\"b\\c\nd"} 1)"));
}

TEST(Metrics, HandleOfNothingCountsNothing) {
  Counter counter;
  counter.add(7);
  EXPECT_EQ(counter.value(), 0);
  Gauge gauge;
  gauge.set(7);
  EXPECT_EQ(gauge.value(), 0);
  Histogram().observe(1);
}

TEST(MetricsDeathTest, OneNameOneKind) {
  Metrics metrics;
  metrics.counter("x_total", "");
  EXPECT_DEATH(metrics.gauge("x_total", ""), "check failed");
  EXPECT_DEATH(metrics.counter("not a name", ""), "check failed");
}

}  // namespace
}  // namespace firstlight
