// SPDX-License-Identifier: Apache-2.0
// The engine as a Generator: owns the thread that steps it. A step that fails and logits that are no numbers are faults
// for the readiness. When the thread ends without having been asked to, the readiness is lost for good and every
// request that runs gets an error, so that nobody waits for a dead engine.
#pragma once

#include <condition_variable>
#include <functional>
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
  int64_t num_waiting() const override { return engine_.num_waiting(); }

  // Runs `work` on the engine's thread between two steps and waits for it, so that it may use the executor. False, and
  // nothing was run, when the engine has stopped.
  bool run_between_steps(const std::function<void()>& work);

 private:
  void run(const std::stop_token& stop);
  void lose(const std::string& why);
  void deliver(uint64_t id, const request::TokenEvent& event);

  engine::Engine& engine_;
  Readiness& readiness_;
  const Log* log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool lost_ = false;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, EventSink> running_;
  std::jthread thread_;
};

}  // namespace firstlight::server
