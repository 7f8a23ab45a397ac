// SPDX-License-Identifier: Apache-2.0
// The batches that a gate runs a plan with: every class of sizes that its buckets have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace firstlight::gates {

struct BatchClass {
  struct Part {
    int sequence = 0;
    int64_t tokens = 0;
  };
  std::string name;  // "tail 13", "full prefill 512", "decode", "small batch 4", "ragged"
  std::vector<Part> parts;
};

// Within the largest bucket and `context` tokens per sequence; no prefill is longer than `longest`.
std::vector<BatchClass> batch_classes(const plan::Plan& plan, int64_t context, int64_t longest);

}  // namespace firstlight::gates
