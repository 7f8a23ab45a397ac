// SPDX-License-Identifier: Apache-2.0
// The engine as a Generator: owns the thread that steps it. When that thread ends without having been asked to, the
// readiness is lost for good and every request that runs gets an error, so that nobody waits for a dead engine.
#pragma once

#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "engine/engine.h"
#include "server/generator.h"
#include "server/readiness.h"

namespace firstlight::server {

class EngineGenerator final : public Generator {
 public:
  // All must outlive it; `log` may be null. Starts the thread.
  EngineGenerator(engine::Engine& engine, Readiness& readiness, const Log* log);
  ~EngineGenerator() override;  // cancels what runs and joins

  Result<Ticket> submit(request::Request request, EventSink sink) override;
  void cancel(Ticket ticket) override;
  int64_t vocab_size() const override { return engine_.vocab_size(); }

 private:
  void run(const std::stop_token& stop);
  void lose(const std::string& why);
  void deliver(uint64_t id, const request::TokenEvent& event);

  engine::Engine& engine_;
  Readiness& readiness_;
  const Log* log_;
  std::mutex mutex_;
  bool lost_ = false;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, EventSink> running_;
  std::jthread thread_;
};

}  // namespace firstlight::server
