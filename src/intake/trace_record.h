// SPDX-License-Identifier: Apache-2.0
// What a trace writes down about a spec's use of config and tensors, and the limits it runs under. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace firstlight::intake {

struct SandboxLimits {
  int64_t steps = 60'000'000;  // instructions, and work in C and memory charged as such
  int64_t memory_bytes = int64_t{256} << 20;
  double seconds = 120;
};

// What a spec did with a config, by leaf path.
struct ConfigRecord {
  std::set<std::string, std::less<>> touched;
  std::set<std::string, std::less<>> pinned;               // held against what the spec wants: c:expect, matches
  std::map<std::string, std::string, std::less<>> waived;  // exact keys
  std::map<std::string, std::string, std::less<>> waived_objects;  // keys whose value is an object, whole
  std::map<std::string, int64_t, std::less<>> defaults;            // absent ones that were read as these whole numbers
};

// Every tensor of layers first to last, both included, under "<prefix><layer>.".
struct LayerWaiver {
  std::string prefix;  // "model.layers."
  int64_t first = 0;
  int64_t last = 0;
  std::string reason;
};

}  // namespace firstlight::intake
