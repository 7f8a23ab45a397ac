// SPDX-License-Identifier: Apache-2.0
// A loaded model behind the server: what `serve` and `adapt --serve` share.
#pragma once

#include <optional>
#include <string>

#include "cli/session.h"
#include "engine/engine.h"
#include "gates/golden.h"
#include "server/server.h"

namespace firstlight::cli {

struct ServingOptions {
  server::ServerOptions server;
  bool log_json = false;
  std::string name;                                    // the model's path; its last part is the name clients see
  int64_t context = 0;                                 // 0: the model's
  std::string chat_format;                             // chat_formats.h
  std::optional<server::ServedEmbeddings> embeddings;  // the session has hidden states; the width is filled in
  // Its context, stop tokens and, where it is 0, its capacity of state are filled in.
  engine::EngineOptions engine = {.admission = engine::Admission::kOnDemand};
};

// Serves until SIGINT or SIGTERM; a second one does not wait for running requests. Ready only while the golden has been
// reproduced since the last fault (server/readiness_keeper.h); without one the reference backend makes it first, while
// /health answers already.
Result<int> serve(Session& session, const ServingOptions& options, std::optional<gates::Golden> golden);

}  // namespace firstlight::cli
