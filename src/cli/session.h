// SPDX-License-Identifier: Apache-2.0
// A loaded model with its text side and, where asked for, an engine: what the verbs that run a model hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adapt/bring_up.h"
#include "adapt/text_assets.h"
#include "cli/flags.h"
#include "engine/engine.h"

namespace firstlight::cli {

struct Session {
  std::unique_ptr<Trace> trace;   // with --trace
  adapt::BringUpOptions options;  // it was loaded with
  std::unique_ptr<adapt::LoadedModel> loaded;
  adapt::TextAssets text;
  int64_t visible_tokens = 0;  // with --evict: sinks and window together

  // Writes the trace, if one was asked for.
  Status finish(const CommonFlags& flags) const;
};

// `buckets` empty: those of generation.
Result<Session> open_session(const CommonFlags& flags, std::vector<compiler::BucketSize> buckets = {},
                             adapt::Hidden hidden = adapt::Hidden::kNone);

// Buckets for verbs that want the logits of every position.
std::vector<compiler::BucketSize> scoring_buckets(int64_t chunk);

}  // namespace firstlight::cli
