// SPDX-License-Identifier: Apache-2.0
// ops: which form each operator of a model runs in on a backend, and why.
#include <cstdio>

#include "adapt/bring_up.h"
#include "adapt/model_options.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "compiler/coverage.h"
#include "device/cpu/detect.h"

namespace firstlight::cli {
namespace {

void print_table(const std::vector<compiler::OperatorCoverage>& list) {
  std::printf("%-14s %-10s %6s  %-26s %-5s %-8s %s\n", "operator", "state", "count", "shape", "mode", "dtype", "why");
  int64_t counts[4] = {};
  for (const auto& entry : list) {
    counts[static_cast<size_t>(entry.state)] += entry.count;
    std::printf("%-14s %-10s %6lld  %-26s %-5s %-8s %s\n", entry.op.c_str(),
                std::string(compiler::coverage_state_name(entry.state)).c_str(), static_cast<long long>(entry.count),
                entry.shape.c_str(), entry.mode.c_str(), entry.dtype.c_str(), entry.why.c_str());
  }
  std::printf("%lld tuned, %lld generated, %lld composed, %lld missing\n", static_cast<long long>(counts[0]),
              static_cast<long long>(counts[1]), static_cast<long long>(counts[2]), static_cast<long long>(counts[3]));
}

}  // namespace

// Exit status 1 where an operator is missing: the model can not run on the backend.
Result<int> verb_ops(const CommonFlags& common) {
  const adapt::BringUpOptions options = FL_TRY(bring_up_options(common));
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(common.model, {.headers_only = true}));
  ir::Graph graph = FL_TRY(intake::load_model(checkpoint, options.intake)).graph;
  const compiler::CompileOptions compile = adapt::compile_options(options, device::detect_cpu(), graph);
  FL_TRY(compiler::run_passes(graph, compile, "", nullptr));
  const auto list = compiler::coverage(graph, compile);
  bool missing = false;
  Json operators = Json::array();
  for (const auto& entry : list) {
    missing = missing || entry.state == compiler::CoverageState::kMissing;
    operators.push_back({{"op", entry.op},
                         {"shape", entry.shape},
                         {"dtype", entry.dtype},
                         {"operands", entry.types},
                         {"mode", entry.mode},
                         {"kernel", entry.kernel},
                         {"state", compiler::coverage_state_name(entry.state)},
                         {"why", entry.why},
                         {"count", entry.count}});
  }
  if (common.json) {
    print_json({{"backend", catalog::backend_name(options.backend)}, {"operators", std::move(operators)}});
  } else {
    print_table(list);
  }
  return missing ? 1 : 0;
}

}  // namespace firstlight::cli
