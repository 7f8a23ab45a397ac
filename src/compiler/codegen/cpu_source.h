// SPDX-License-Identifier: Apache-2.0
// C++ source for steps of the CPU: element-wise formulas, norms, softmax, reductions and what is fused along rows, each written for one
// signature, strides and widths as constants. The functions of a plan make one translation unit, which the host's
// compiler turns into code in the background (runtime/generated.h); until then, and where there is no compiler, the
// step's catalog kernel runs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "catalog/kernel_row.h"

namespace firstlight::compiler {

// A function of the translation unit. Its C type is plan::GeneratedFunction.
struct CpuFunction {
  std::string name;  // "fl_map_1f0a…": operator and hash of the body, so that equal steps share one
  std::string text;
  bool rows = true;  // counts rows of the last axis, not elements
};

// Errors: kUnsupported saying what keeps this signature from being generated.
Result<CpuFunction> cpu_function(const catalog::Signature& signature);

// The functions of a plan, each once, and the unit they make.
class CpuUnit {
 public:
  // The function's name.
  std::string add(CpuFunction function);
  // Empty when nothing was added.
  std::string text() const;

 private:
  std::map<std::string, std::string> functions_;
};

// What stands before the functions: fl_exp and its kin.
extern const char* const kCpuPrologue;

}  // namespace firstlight::compiler
