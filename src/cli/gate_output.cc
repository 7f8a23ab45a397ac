// SPDX-License-Identifier: Apache-2.0
#include "cli/gate_output.h"

#include <cstdio>

#include "base/json.h"
#include "cli/output.h"
#include "cli/streams.h"
#include "gates/targets.h"

namespace firstlight::cli {

void print_gate(const gates::Gate& gate) {
  std::fprintf(stderr, "%-11s %-6s %7.2f s  %s\n", gate.level.c_str(), gate.passed ? "passed" : "FAILED", gate.seconds,
               printable(gate.summary).c_str());
}

int exit_status_of(const gates::AdaptResult& result) {
  if (result.passed) return 0;
  const std::string& level = result.gates.back().level;
  const auto evidence = parse_json(result.gates.back().evidence);
  const bool has_error = evidence.ok() && evidence->contains("error");
  const bool too_large = has_error && (*evidence)["error"]["code"] == "out of memory";
  return has_error && !too_large && level != "answer" ? 2 : 1;
}

Result<gates::GateOptions> gate_options(const CommonFlags& common, const std::string& baseline,
                                        const std::string& targets, double budget) {
  gates::GateOptions options;
  if (!(budget >= 0)) return invalid_argument("--budget " + std::to_string(budget) + ": seconds, 0 or more, wanted");
  if (!targets.empty()) FL_TRY(gates::read_targets(targets));  // a bad file is told before an hour has passed
  options.bring_up = FL_TRY(bring_up_options(common));
  options.bring_up.load_progress = LoadProgress();
  options.baseline = baseline;
  options.targets = targets;
  options.reference_seconds = budget;
  options.gate_done = print_gate;
  return options;
}

Status show_result(const CommonFlags& common, const std::string& directory, const gates::AdaptResult& result,
                   const std::string& answer) {
  std::string page;
  if (!directory.empty()) page = FL_TRY(gates::write_report(directory, common.model, result, answer));
  if (common.json) {
    print_json(gates::report_json(result, page, answer));
    return ok_status();
  }
  if (!answer.empty()) std::printf("%s\n", answer.c_str());
  if (!page.empty()) std::fprintf(stderr, "report: %s\n", page.c_str());
  return ok_status();
}

}  // namespace firstlight::cli
