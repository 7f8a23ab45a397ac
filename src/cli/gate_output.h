// SPDX-License-Identifier: Apache-2.0
// What the verbs that run gates (adapt, validate) have in common: lines for people, the exit status of a verdict.
#pragma once

#include <string>

#include "cli/flags.h"
#include "gates/gates.h"

namespace firstlight::cli {

void print_gate(const gates::Gate& gate);

// The status a failed gate stands for: bad input is 2, as everywhere; a verdict is 1.
int exit_status_of(const gates::AdaptResult& result);

// The gates of the flags' model, told as they are done. Errors: those of
// gates::read_targets.
Result<gates::GateOptions> gate_options(const CommonFlags& common, const std::string& baseline,
                                        const std::string& targets, double budget);

// Writes the report where `directory` is not empty, and prints the result; `answer` may be empty.
Status show_result(const CommonFlags& common, const std::string& directory, const gates::AdaptResult& result,
                   const std::string& answer);

}  // namespace firstlight::cli
