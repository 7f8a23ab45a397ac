// SPDX-License-Identifier: Apache-2.0
// A look at steps as they run: operands and state before, results and state after, in the host's memory whatever the
// backend. The executor calls a probe on one thread, between two steps of the run.
#pragma once

#include <span>
#include <string_view>

#include "plan/batch.h"
#include "plan/plan.h"
#include "tensor/view.h"

namespace firstlight::runtime {

// One call of a kernel. Views are valid during the call of the probe alone.
struct StepCall {
  const plan::KernelStep& step;
  std::string_view label;  // of the step
  std::string_view form;   // what runs: a symbol, or a generated function
  const plan::Batch& batch;
  tensor::SymbolValues values;
  int64_t expert = -1;                             // inside a per-expert step
  std::span<const tensor::View> inputs;            // in operand order; absent for states, and on devices for weights
  std::span<const tensor::View> outputs;           // before: not written yet, absent on devices
  std::span<const plan::StateView* const> states;  // of the step's state operands
};

class StepProbe {
 public:
  virtual ~StepProbe() = default;
  // Whether before() and after() are wanted for this call.
  virtual bool wants(const plan::KernelStep& step, const tensor::SymbolValues& values) = 0;
  virtual void before(const StepCall& call) = 0;
  virtual void after(const StepCall& call) = 0;
};

}  // namespace firstlight::runtime
