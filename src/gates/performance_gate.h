// SPDX-License-Identifier: Apache-2.0
// The performance gate: what was asked for in a file of targets, or a share of what this machine reaches, measured in
// the same rounds. docs/gates.md derives the share.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "gates/benchmark.h"
#include "gates/candidate.h"
#include "gates/load_watch.h"
#include "gates/plan_work.h"
#include "gates/targets.h"

namespace firstlight::gates {

Result<Verdict> performance_gate(Candidate& candidate);

// What the gate is judged by, as functions, so that tests have clocks and machines of their own.
struct Meter {
  std::function<Result<BenchmarkRow>(const TargetPoint& point, int64_t decode_tokens)> measure;
  std::function<target::CpuRoof()> roof;                // empty: none is known for this backend
  std::function<PlanWork(const RunShape& shape)> work;  // what a run must read and compute
  std::function<CoreTime()> core_time;                  // empty: nobody else is there
  double step_s = 0;                                    // what starting and ending a step costs
  double cache_bytes = 0;                               // weights below it may never be read from memory
  std::function<double(int64_t tokens, int64_t sequences)> memory_bytes;  // with the state of so many
  int64_t max_run_tokens = 512;
  int64_t generated_steps = 0;  // that run generated code
};

// `targets` null: points of our own, judged by the share of the roof.
Result<Verdict> judge_performance(const Meter& meter, const Targets* targets, const std::vector<TargetPoint>& points);

}  // namespace firstlight::gates
