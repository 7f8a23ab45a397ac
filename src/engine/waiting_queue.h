// SPDX-License-Identifier: Apache-2.0
// Requests that wait for a place, and who is next: the highest priority (which grows with the time waited); of equal
// ones who was put out, then the client that has been served least, then who came first. What a client has been served
// is counted in tokens, as the virtual token counter of arXiv:2401.00588 does: one per prompt token, two per output
// token, and who comes back after a while starts with no less than the others have. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sequence.h"

namespace firstlight::engine {

class WaitingQueue {
 public:
  // One level of priority per so many seconds of waiting; 0: priorities stay what they are.
  explicit WaitingQueue(double aging_seconds) : aging_seconds_(aging_seconds) {}

  void push(std::unique_ptr<Sequence> sequence);
  // Who is next of those that are not held back; null: nobody.
  Sequence* next(Clock::time_point now, const std::function<bool(const Sequence&)>& is_held = nullptr) const;
  std::unique_ptr<Sequence> take(const Sequence& sequence);
  void drop_finished();
  const std::vector<std::unique_ptr<Sequence>>& all() const { return waiting_; }
  size_t num_clients() const { return served_.size(); }  // that are remembered

  void charge_prompt(std::string_view client, int64_t tokens) { served_[std::string(client)] += tokens; }
  void charge_output(std::string_view client, int64_t tokens) { served_[std::string(client)] += 2 * tokens; }

 private:
  int64_t priority(const Sequence& sequence, Clock::time_point now) const;
  int64_t served(const std::string& client) const;
  bool goes_before(const Sequence& a, const Sequence& b, Clock::time_point now) const;

  double aging_seconds_;
  std::vector<std::unique_ptr<Sequence>> waiting_;
  std::map<std::string, int64_t> served_;  // by client
};

}  // namespace firstlight::engine
