// SPDX-License-Identifier: Apache-2.0
// What contract coverage found: for each config key and each tensor, whether it arrived in the graph. Plain data.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace firstlight::intake {

struct ConfigCoverage {
  std::vector<std::string> bound;             // changing the value changes the graph, or the load is refused
  std::map<std::string, std::string> waived;  // key to reason
  std::vector<std::string> unknown;           // nobody read it: the load fails
  std::vector<std::string> without_effect;    // read, but no other value changes anything: the load fails
};

struct TensorCoverage {
  std::vector<std::string> bound;             // alive in the graph after dead-code removal
  std::map<std::string, std::string> waived;  // name to reason
  std::vector<std::string> unbound;           // in the checkpoint, in nobody's use
  std::vector<std::string> missing;           // asked for by the spec, not in the checkpoint
};

struct CoverageReport {
  ConfigCoverage config;
  TensorCoverage tensors;
  bool complete() const {
    return config.unknown.empty() && config.without_effect.empty() && tensors.unbound.empty() &&
           tensors.missing.empty();
  }
};

}  // namespace firstlight::intake
