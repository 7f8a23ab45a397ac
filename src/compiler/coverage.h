// SPDX-License-Identifier: Apache-2.0
// Which form every operator of a graph would run in on a target: the report behind the verb `ops`.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "ir/graph.h"

namespace firstlight::compiler {

enum class CoverageState : uint8_t {
  kTuned,      // a kernel written for the backend
  kGenerated,  // source written for this signature; its composed form until it is built
  kComposed,   // a plain body on the backend's primitives
  kMissing,    // nothing: the model can not run there
};
std::string_view coverage_state_name(CoverageState state);

// Nodes of one signature, counted.
struct OperatorCoverage {
  std::string op;
  std::string shape;   // of the first result
  std::string types;   // of all operands
  std::string dtype;   // the stored type of a product's weight, else of the first tensor operand
  std::string mode;    // how it computes
  std::string kernel;  // its symbol; the function's name where it is generated
  CoverageState state = CoverageState::kMissing;
  std::string why;
  int64_t count = 0;
};

// Of the graph behind the passes, regions included, what depends on weights alone left out; in order of first use.
std::vector<OperatorCoverage> coverage(const ir::Graph& graph, const CompileOptions& options);

}  // namespace firstlight::compiler
