// SPDX-License-Identifier: Apache-2.0
// A file of the performance that is wanted (TOML): points of prompt, depth and batch, each with what it must reach.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::gates {

struct TargetPoint {
  int64_t prompt = 512, depth = 0, batch = 1;
  std::optional<double> ttft_s;      // at most
  std::optional<double> prompt_tps;  // at least, over all sequences
  std::optional<double> decode_tps;  // at least, over all sequences
};

struct Targets {
  std::vector<TargetPoint> points;
  int64_t rounds = 3;               // of which the median counts
  int64_t decode_tokens = 32;       // per sequence
  std::optional<double> memory_mb;  // weights, activations, work space and the longest point's state, at most
};

// Errors: kInvalidData naming the key, the value found and what was expected.
Result<Targets> parse_targets(std::string_view toml);
// Errors: kNotFound as well; all name the file.
Result<Targets> read_targets(const std::string& path);

}  // namespace firstlight::gates
