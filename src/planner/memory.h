// SPDX-License-Identifier: Apache-2.0
// What a plan takes of one device's memory, before anything is loaded: weights, state by kind, activations, work space.
// All figures are bytes, of a run of `sequences` sequences of `context` tokens each, and grow with both.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"
#include "plan/plan.h"
#include "plan/state_pages.h"

namespace firstlight::planner {

// No length beyond this is promised: angles are stated up to here (docs/long_context.md).
constexpr int64_t kLongestContext = int64_t{1} << 24;

struct Demand {
  int64_t context = 1;
  int64_t sequences = 1;
};

struct MemoryNeeds {
  int64_t weights = 0;  // while the plan is loaded: made at load, and read where their files lie
  int64_t loading = 0;  // beside them, while they are made
  int64_t state = 0;
  std::map<std::string, int64_t> state_by_kind;  // "append", "window", "fixed", …
  int64_t activations = 0;
  int64_t workspace = 0;  // the largest of one step
  int64_t sampling = 0;   // tokens of the sequences, their tables of pages, rows of logits and what is made of them
  int64_t program = 0;    // what the process takes beside; 0 on devices with memory of their own

  int64_t total() const;  // at the worst moment
};

struct MemoryModelOptions {
  int64_t page_rows = 128;  // as EngineOptions and StateCacheOptions have them
  int64_t step_tokens = 0;  // of one step; 0: as many as the largest bucket takes
  int64_t program_bytes = 0;
  bool is_device = false;  // weights are copied there, and what loading takes is the host's
};

class MemoryModel {
 public:
  // `checkpoint` says which tensors lie unaligned and are copied; null: none. Errors: those of plan::pages_of.
  static Result<MemoryModel> create(const plan::Plan& plan, const formats::Checkpoint* checkpoint,
                                    const MemoryModelOptions& options);

  MemoryNeeds needs(const Demand& demand) const;

  // The longest context of so many sequences whose needs are within `usable` bytes, at most `most`; 0: none is.
  int64_t largest_context(int64_t usable, int64_t sequences, int64_t most = kLongestContext) const;

 private:
  struct State {
    std::string kind;
    plan::StatePages pages;
  };
  MemoryNeeds fixed_;
  std::vector<State> states_;
  int64_t step_tokens_ = 0;
  int64_t vocabulary_ = 0;
};

// The longest context whose state, of so many sequences, takes at most `room` bytes.
int64_t largest_context(const std::vector<plan::StatePages>& states, int64_t room, int64_t sequences,
                        int64_t step_tokens, int64_t most = kLongestContext);

// Of a machine's memory: what a run may take. `available` counts what others have taken; the headroom stays free.
struct MemoryLimit {
  int64_t memory = 0, available = 0;
  double headroom = 0.2;
  int64_t headroom_bytes() const { return static_cast<int64_t>(headroom * static_cast<double>(memory)); }
  int64_t usable() const;
};

}  // namespace firstlight::planner
