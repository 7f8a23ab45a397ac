// SPDX-License-Identifier: Apache-2.0
// validate: one level's gate, or all of them in order, for a model that is brought up first.
#include "cli/gate_output.h"
#include "cli/verbs.h"

namespace firstlight::cli {

Result<int> verb_validate(const CommonFlags& common, const ValidateFlags& flags) {
  auto options = FL_TRY(gate_options(common, flags.baseline, flags.targets, flags.budget));
  if (flags.level != "all") {
    const auto level = gates::level_from_name(flags.level);
    if (!level) return invalid_argument("--level " + flags.level + ": op, layer, model, perf or all wanted");
    if (!gates::all_levels().contains(*level))
      return unsupported("--level " + flags.level + ": this build has no gate of that level yet");
    options.levels = {*level};
  }
  const auto result = FL_TRY(gates::run_gates(common.model, options));
  FL_TRY(show_result(common, flags.report, result, ""));
  return exit_status_of(result);
}

}  // namespace firstlight::cli
