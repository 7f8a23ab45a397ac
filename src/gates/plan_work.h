// SPDX-License-Identifier: Apache-2.0
// What a plan must at least read and compute for a batch, and the time that takes at a roof: what measured speed is
// held against.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"
#include "target/target.h"

namespace firstlight::gates {

// One run of `tokens` tokens (of all sequences) with `outputs` rows of logits, behind `depth` tokens each of
// `sequences` sequences.
struct RunShape {
  int64_t tokens = 1, outputs = 1, sequences = 1, depth = 0;
};

struct PlanWork {
  double weight_bytes = 0, state_bytes = 0;  // each read once
  double f32_operations = 0, bf16_operations = 0, int8_operations = 0;
  int64_t steps = 0;
};

// Counts products of weights, attention and what they read; element-wise steps are taken to cost nothing. Of experts
// the share that so many tokens reach at most.
PlanWork work_of(const plan::Plan& plan, const RunShape& shape);

struct Floor {
  double seconds = 0;       // reading and computing overlap, so the larger; steps come on top
  double step_seconds = 0;  // of it, starting and ending steps
  std::string bound;        // "memory", "arithmetic" or "steps"
};

// `step_s`: what starting and ending one step costs.
Floor floor_of(const PlanWork& work, const target::CpuRoof& roof, double step_s);

}  // namespace firstlight::gates
