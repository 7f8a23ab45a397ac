// SPDX-License-Identifier: Apache-2.0
// A step's call as a judge sees it: captured while the plan runs, large ones by a sample of rows and columns that
// always holds the first and the last of them.
#pragma once

#include <string>

#include "catalog/kernel_row.h"
#include "gates/weight_source.h"
#include "judge/verdict.h"
#include "runtime/probe.h"

namespace firstlight::gates {

struct CapturedCall {
  judge::Case call;
  judge::Outcome found;
  catalog::ComputeMode mode = catalog::ComputeMode::kF32;
  std::string kernel;  // what ran
  std::string label;   // of the step
  std::string shape;   // of the first operand and of the state: "T=7, states 64 to 72"
  int64_t rows = 0, rows_judged = 0;
  int64_t columns = 0, columns_judged = 0;
  std::vector<int64_t> kept_rows;                  // empty: all
  std::vector<std::vector<int64_t>> kept_columns;  // per result; empty: all
};

catalog::ComputeMode mode_of(const ops::Attributes& attributes);

// Operands and state before the step. Errors: those of the weight source.
Result<CapturedCall> capture_before(const runtime::StepCall& call, const plan::Plan& plan, WeightSource& weights);

// Results and state after it.
void capture_after(const runtime::StepCall& call, const plan::Plan& plan, CapturedCall& captured);

}  // namespace firstlight::gates
