// SPDX-License-Identifier: Apache-2.0
// Which bytes of weights a plan keeps, and which it needs for a while as it is loaded: what the runtime allocates by,
// and what a plan of memory counts by (module planner). Reads plans alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace firstlight::plan {

// Per buffer: whether steps of running read it, or a buffer that stands for a part of it.
std::vector<bool> read_when_running(const Plan& plan);

// Per load step: the files and temporaries that no later load step reads.
std::vector<std::vector<BufferId>> last_read_by(const Plan& plan);

// Weights that running reads, whatever is copied.
struct WeightBytes {
  int64_t mapped = 0;    // where the file lies
  int64_t resident = 0;  // made by load steps
  int64_t total() const { return mapped + resident; }
};
WeightBytes weight_bytes(const Plan& plan);

// The most that weights made at load, temporaries and `copied` files (their bytes lie unaligned) take at one time.
int64_t peak_load_bytes(const Plan& plan, std::span<const BufferId> copied);

}  // namespace firstlight::plan
