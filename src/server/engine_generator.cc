// SPDX-License-Identifier: Apache-2.0
#include "server/engine_generator.h"

#include <exception>
#include <string>
#include <utility>

namespace firstlight::server {

EngineGenerator::EngineGenerator(engine::Engine& engine, Readiness& readiness, const Log* log)
    : engine_(engine), readiness_(readiness), log_(log) {
  engine_.set_on_fault([this](const Status& status) { readiness_.fault("a step failed: " + status.message()); });
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

EngineGenerator::~EngineGenerator() {
  thread_.request_stop();
  thread_.join();
  lose("the engine has been stopped");  // a request that came in meanwhile
}

Result<Ticket> EngineGenerator::submit(request::Request request, EventSink sink) {
  uint64_t id = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return unavailable("the engine has stopped");
    id = next_id_++;
    running_.emplace(id, std::move(sink));
  }
  auto ticket = engine_.submit(std::move(request), [this, id](const auto& event) { deliver(id, event); });
  if (!ticket.ok()) {
    const std::scoped_lock lock(mutex_);
    running_.erase(id);
  }
  return ticket;
}

void EngineGenerator::cancel(Ticket ticket) { engine_.cancel(ticket); }

bool EngineGenerator::run_between_steps(const std::function<void()>& work) {
  bool done = false;
  engine_.call([&] {
    work();
    const std::scoped_lock lock(mutex_);
    done = true;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done || lost_; });
  return done;
}

void EngineGenerator::deliver(uint64_t id, const request::TokenEvent& event) {
  EventSink sink;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    if (event.finish == request::FinishReason::kNone) {
      sink = found->second;
    } else {
      sink = std::move(found->second);
      running_.erase(found);
    }
  }
  sink(event);
}

void EngineGenerator::run(const std::stop_token& stop) {
  std::string why = "the engine has stopped";
  try {
    engine_.run(stop);
  } catch (const std::exception& error) {  // memory running out, most likely
    why += std::string(": ") + error.what();
  }
  if (stop.stop_requested()) return;
  log_error(log_, why);
  lose(why);
}

void EngineGenerator::lose(const std::string& why) {
  readiness_.lose(why);
  std::unordered_map<uint64_t, EventSink> left;
  {
    const std::scoped_lock lock(mutex_);
    lost_ = true;
    left.swap(running_);
  }
  changed_.notify_all();
  for (const auto& [id, sink] : left) {
    sink({.finish = request::FinishReason::kError, .error = unavailable(why)});
  }
}

}  // namespace firstlight::server
