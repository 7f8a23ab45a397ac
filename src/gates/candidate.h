// SPDX-License-Identifier: Apache-2.0
// What a gate is given, and what it says. Every gate of a loaded model is one function of its own file:
// operator_gate.h, layer_gate.h, model_gate.h, performance_gate.h; gates.cc puts them in a row.
#pragma once

#include <string>

#include "adapt/bring_up.h"
#include "adapt/text_assets.h"
#include "gates/golden.h"
#include "target/target.h"

namespace firstlight::gates {

struct GateOptions;

// A model that has been loaded, and what the gates before have left for the later ones. Owned by the row.
struct Candidate {
  const std::string& path;
  const GateOptions& options;
  adapt::BringUpOptions bring_up;  // its `device` is the one that the plan runs on
  target::CpuTarget target;
  adapt::LoadedModel& loaded;
  const adapt::TextAssets& text;
  Golden& golden;  // filled by the model gate
};

struct Verdict {
  bool passed = false;
  std::string summary;   // one line for people
  std::string evidence;  // JSON
};

}  // namespace firstlight::gates
