// SPDX-License-Identifier: Apache-2.0
// A loaded model behind the server: what `serve` and `adapt --serve` share.
#pragma once

#include <optional>
#include <string>

#include "cli/session.h"
#include "engine/engine.h"
#include "gates/golden.h"

namespace firstlight::cli {

struct ServingOptions {
  std::string host;
  int port = 0;
  std::string api_key;
  std::string name;     // the model's path; its last part is the name clients see
  int64_t context = 0;  // 0: the model's
  // Its context, stop tokens and, where it is 0, its capacity of state are filled in.
  engine::EngineOptions engine = {.admission = engine::Admission::kOnDemand};
};

// Serves until SIGINT or SIGTERM. Ready only once the golden has been reproduced; without one the reference backend
// makes it first, while /health answers already. The answer no (the golden is not reproduced) keeps serving health,
// never ready.
Result<int> serve(Session& session, const ServingOptions& options, std::optional<gates::Golden> golden);

}  // namespace firstlight::cli
