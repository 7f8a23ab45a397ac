// SPDX-License-Identifier: Apache-2.0
// The smallest config found whose trace has all features of a given one's. Knows no architecture: which number is a
// size, a count of layers or a window, and which lists go with it, is found out by changing one and tracing again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "intake/config_tree.h"
#include "intake/features.h"
#include "intake/intake.h"

namespace firstlight::intake {

struct ShrinkOptions {
  int64_t vocabulary = 0;  // the least width of the logits
  IntakeOptions intake;
};

struct Change {
  std::string path;  // "text_config.num_hidden_layers"
  std::string from, to;
};

struct Shrunk {
  ConfigNode config;                          // without its quantisation
  Features original, features;                // of both traces
  std::map<std::string, std::string> layers;  // scope of each layer to the original's: one of its kind, in order
  std::vector<Change> changes;                // of numbers and lists, in file order
  std::vector<std::string> notes;             // what was left out of the config
  int64_t num_traces = 0;
};

// Errors: those of a trace of `config` itself; kUnsupported when its tensors or graph need more than a config tells.
Result<Shrunk> shrink_config(const ConfigNode& config, const ShrinkOptions& options);

}  // namespace firstlight::intake
