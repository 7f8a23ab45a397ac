// SPDX-License-Identifier: Apache-2.0
// Doubles for the server's tests: a tokenizer of bytes, a small chat template, a generator that says what a script
// tells it, and an exchange that records what it is told. Header-only; shared with the fuzz target.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/generator.h"
#include "server/http.h"
#include "server/served_model.h"
#include "text/chat_template.h"

namespace firstlight::server::fake {

inline constexpr int32_t kBos = 256, kTurn = 257, kEnd = 258, kVocab = 259;

inline std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto a = static_cast<unsigned char>(bytes[0]);  // one byte is all that is needed here
  return {kDigits[a >> 2], kDigits[(a & 3) << 4], '=', '='};
}

// Ids 0 to 255 are the bytes; <bos>, <turn> and <end> are control tokens; BOS goes in front of raw text.
inline text::Tokenizer tokenizer() {
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte) {
    ranks += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  text::TiktokenSpec spec;
  spec.pattern = "[\\s\\S]";
  spec.special_tokens = {{"<bos>", kBos}, {"<turn>", kTurn}, {"<end>", kEnd}};
  spec.bos_token = "<bos>";
  auto made = text::load_tiktoken(ranks, spec);
  FL_CHECK(made.ok());
  return std::move(*made);
}

inline constexpr std::string_view kTemplate =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'bad' or m.content == 'refuse' %}"
    "{{ raise_exception('no such words') }}{% endif %}<turn>{{ m.role }}:{{ m.content }}<end>{% endfor %}"
    "{% if mood %}[{{ mood }}]{% endif %}{% if add_generation_prompt %}<turn>assistant:{% endif %}";

inline text::ChatTemplate chat_template(std::string_view source = kTemplate) {
  auto made = text::ChatTemplate::compile(source, "test");
  FL_CHECK(made.ok());
  return std::move(*made);
}

inline std::vector<int32_t> ids_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// Says its script, one token per step for every request, then stops (or is cut by max_tokens). step() by hand, or on a
// thread of its own with a pause between steps.
class ScriptedGenerator final : public Generator {
 public:
  std::function<std::vector<int32_t>(const request::Request&)> script = [](const request::Request&) {
    return ids_of("Hello, world");
  };
  Status submit_status;                        // not ok: the answer to every submit()
  Status step_status;                          // not ok: every request fails at the next step
  std::atomic<int64_t> max_requests{1 << 30};  // beyond these submit() answers kUnavailable

  ~ScriptedGenerator() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Result<Ticket> submit(request::Request request, EventSink sink) override {
    const std::scoped_lock lock(mutex_);
    if (!submit_status.ok()) return submit_status;
    if (static_cast<int64_t>(running_.size()) >= max_requests) return unavailable("the queue is full");
    const Ticket ticket = next_++;
    Running one{script(request), 0, request, std::move(sink)};
    requests_.push_back(std::move(request));
    running_.emplace(ticket, std::move(one));
    return ticket;
  }

  void cancel(Ticket ticket) override {
    const std::scoped_lock lock(mutex_);
    ++num_cancels_;
    cancelled_.push_back(ticket);
  }

  int64_t vocab_size() const override { return kVocab; }
  int64_t num_waiting() const override { return static_cast<int64_t>(num_running()); }

  // One token for every request; false when there is none.
  bool step() {
    std::vector<std::pair<EventSink, request::TokenEvent>> events;
    {
      const std::scoped_lock lock(mutex_);
      for (const Ticket ticket : cancelled_) {
        if (const auto found = running_.find(ticket); found != running_.end()) {
          events.emplace_back(found->second.sink,
                              request::TokenEvent{.finish = request::FinishReason::kCancelled, .error = {}});
          running_.erase(found);
        }
      }
      cancelled_.clear();
      for (auto it = running_.begin(); it != running_.end();) {
        request::TokenEvent event = next_event(it->second);
        events.emplace_back(it->second.sink, event);
        it = event.finish == request::FinishReason::kNone ? std::next(it) : running_.erase(it);
      }
    }
    for (const auto& [sink, event] : events) sink(event);
    return !events.empty();
  }

  void run_on_thread(std::chrono::microseconds pause) {
    thread_ = std::thread([this, pause] {
      while (!stop_) {
        step();
        std::this_thread::sleep_for(pause);
      }
    });
  }

  size_t num_running() const {
    const std::scoped_lock lock(mutex_);
    return running_.size();
  }
  int64_t num_cancels() const {
    const std::scoped_lock lock(mutex_);
    return num_cancels_;
  }
  std::vector<request::Request> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  struct Running {
    std::vector<int32_t> tokens;
    size_t next = 0;
    request::Request request;
    EventSink sink;
  };

  request::TokenEvent next_event(Running& one) {
    request::TokenEvent event;
    event.accepted_tokens = static_cast<int64_t>(one.next);
    event.drafted_tokens = 3 * event.accepted_tokens;  // a third of all guesses is good
    if (!step_status.ok()) {
      event.finish = request::FinishReason::kError;
      event.error = step_status;
      return event;
    }
    if (one.request.embed) {
      event.embedding = {static_cast<float>(one.request.prompt.back()), 0};
      event.finish = request::FinishReason::kStop;
      return event;
    }
    if (one.request.score_prompt && one.next == 0) {
      for (size_t i = 1; i < one.request.prompt.size(); ++i) {
        event.prompt_scores.push_back({.chosen = {one.request.prompt[i], -0.25 * static_cast<double>(i)},
                                       .top = {{one.request.prompt[i - 1], -0.125}}});
      }
    }
    if (one.request.max_tokens == 0) {
      event.finish = request::FinishReason::kLength;
      return event;
    }
    if (one.next == one.tokens.size()) {
      event.finish = request::FinishReason::kStop;
      event.stop_token = kEnd;
      return event;
    }
    event.token = one.tokens[one.next++];
    if (const int wanted = one.request.sampling.num_logprobs; wanted >= 0) {
      event.logprob = request::TokenLogprob{*event.token, -0.5};
      for (int i = 0; i < wanted; ++i) {
        event.top_logprobs.push_back({(*event.token + i) % kVocab, i == 1 ? -INFINITY : -0.5 - i});
      }
    }
    if (static_cast<int64_t>(one.next) >= one.request.max_tokens) event.finish = request::FinishReason::kLength;
    return event;
  }

  mutable std::mutex mutex_;
  std::map<Ticket, Running> running_;
  std::vector<Ticket> cancelled_;
  std::vector<request::Request> requests_;
  int64_t num_cancels_ = 0;
  Ticket next_ = 1;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Work runs when the test says so.
class RecordingExchange final : public Exchange {
 public:
  int status = 0;
  int num_answers = 0;
  std::string body;  // of the answer, or the stream so far
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers, added_headers;
  double time_left_s = 0;  // as expire_after() said
  bool streamed = false;

  void post(std::function<void()> work) override { work_.push_back(std::move(work)); }
  void add_header(std::string name, std::string value) override {
    added_headers.emplace_back(std::move(name), std::move(value));
  }
  void expire_after(double seconds) override { time_left_s = seconds; }
  void respond(HttpResponse response) override {
    if (over_) return;
    FL_CHECK(!streamed);
    status = response.status;
    body = std::move(response.body);
    content_type = response.content_type;
    headers = std::move(response.headers);
    finish();
  }
  void begin_stream(std::string_view type) override {
    if (over_) return;
    FL_CHECK(!streamed);
    streamed = true;
    status = 200;
    content_type = type;
  }
  void send(std::string piece) override {
    if (over_) return;
    FL_CHECK(streamed);
    body += piece;
  }
  void end_stream() override {
    if (over_) return;
    FL_CHECK(streamed);
    finish();
  }
  void on_end(std::function<void(ExchangeEnd)> callback) override {
    if (!over_) on_end_ = std::move(callback);
  }
  bool is_over() const override { return over_; }

  bool run() {
    bool any = false;
    while (!work_.empty()) {
      const auto work = std::move(work_.front());
      work_.pop_front();
      work();
      any = true;
    }
    return any;
  }
  void end(ExchangeEnd how) {
    const auto callback = on_end_;
    if (callback) callback(how);
    if (how == ExchangeEnd::kGone) {
      over_ = true;
      on_end_ = nullptr;
    }
  }

 private:
  void finish() {
    over_ = true;
    ++num_answers;
    on_end_ = nullptr;
  }
  std::deque<std::function<void()>> work_;
  std::function<void(ExchangeEnd)> on_end_;
  bool over_ = false;
};

inline ServedModel served_model(Generator& generator, const text::ChatTemplate* chat) {
  return {.name = "tiny",
          .generator = &generator,
          .tokenizer = tokenizer(),
          .chat_template = chat,
          .special_tokens = {{"bos_token", "<bos>"}},
          .context = 1024,
          .created_unix_s = 1700000000,
          .default_sampling = {}};
}

}  // namespace firstlight::server::fake
