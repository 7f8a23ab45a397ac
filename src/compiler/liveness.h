// SPDX-License-Identifier: Apache-2.0
// From when to when each buffer of a plan is needed. Every step, inner blocks included, gets a time; a buffer is alive
// from the step that writes it to the last that reads it (a buffer from outside a repeated block: to the block's end).
#pragma once

#include <unordered_map>
#include <vector>

#include "plan/plan.h"

namespace firstlight::compiler {

struct Lifetime {
  int64_t begin = -1;  // -1: never
  int64_t end = -1;

  bool meets(const Lifetime& other) const { return begin <= other.end && other.begin <= end; }
};

struct Liveness {
  std::vector<Lifetime> lifetimes;  // per buffer; aliases and slices count for what is below them
  std::unordered_map<const plan::KernelStep*, int64_t> time_of;
};

Liveness find_liveness(const plan::Plan& plan);

// The buffer whose bytes an alias, or a part of a stack, stands for.
plan::BufferId buffer_below(const plan::Plan& plan, plan::BufferId id);

}  // namespace firstlight::compiler
