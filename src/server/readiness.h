// SPDX-License-Identifier: Apache-2.0
// Whether answers can be trusted now, and if not, why. Set by whoever checks the model (ready only after the golden
// prompt has been reproduced; readiness_keeper.h), read by GET /ready and before each request. Liveness is another
// matter: GET /health.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>

namespace firstlight::server {

// Safe to use from any thread.
class Readiness {
 public:
  void set_ready();
  // Unless there was a fault since num_faults() said `num_faults`: what was checked before it says nothing about now.
  bool set_ready_since(uint64_t num_faults);
  void set_not_ready(std::string reason);
  // A step failed, logits are no numbers, a device is gone: not ready at once, until somebody has checked anew.
  void fault(std::string reason);
  // For good: an engine or a rank is gone. Later calls of the above change nothing.
  void lose(std::string reason);
  // For good: the server ends when what runs has ended. The reason is "draining" from now on.
  void drain();

  bool is_ready() const;
  bool is_lost() const;
  bool is_draining() const;
  std::string reason() const;  // empty when ready

  uint64_t num_faults() const;
  // Until there have been more than `num_faults`; false when `stop` came first.
  bool wait_for_fault(uint64_t num_faults, const std::stop_token& stop) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable_any faulted_;
  std::string reason_ = "starting";
  uint64_t num_faults_ = 0;
  bool lost_ = false;
  bool draining_ = false;
};

}  // namespace firstlight::server
