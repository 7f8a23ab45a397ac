// SPDX-License-Identifier: Apache-2.0
// Whether answers can be trusted now, and if not, why. Set by whoever checks the model (ready only after the golden
// prompt has been reproduced), read by GET /ready and before each request. Liveness is another matter: GET /health.
#pragma once

#include <mutex>
#include <string>

namespace firstlight::server {

// Safe to use from any thread.
class Readiness {
 public:
  void set_ready();
  void set_not_ready(std::string reason);
  // For good: an engine or a rank is gone. Later calls of the two above change nothing.
  void lose(std::string reason);

  bool is_ready() const;
  std::string reason() const;  // empty when ready

 private:
  mutable std::mutex mutex_;
  std::string reason_ = "starting";
  bool lost_ = false;
};

}  // namespace firstlight::server
