// SPDX-License-Identifier: Apache-2.0
#include "gates/model_gate.h"

#include <cstdio>

#include "base/json.h"
#include "gates/gates.h"

namespace firstlight::gates {
namespace {

int64_t vocab_size(const plan::Plan& plan) {
  for (const auto& output : plan.outputs) {
    if (output.name == "logits") return plan.buffer(output.buffer).type.shape.back().factor;
  }
  return 0;
}

}  // namespace

Result<Verdict> model_gate(Candidate& candidate) {
  const std::string& baseline = candidate.options.baseline;
  runtime::Executor& executor = *candidate.loaded.executor;
  if (baseline.empty()) {
    const auto prompt = default_golden_prompt(candidate.text, vocab_size(executor.plan()));
    candidate.golden =
        FL_TRY(make_golden(candidate.loaded, candidate.bring_up, prompt, candidate.options.golden_continuation));
  } else {
    candidate.golden = FL_TRY(read_golden(baseline));
  }
  const GoldenCheck check = FL_TRY(reproduce(executor, candidate.golden));
  const char* sees = baseline.empty() ? "kernel and plan faults; not faults of the spec or of the weights"
                                      : "spec, kernel and plan faults, as far as the recording is the vendor's";
  char summary[160];
  std::snprintf(summary, sizeof(summary),
                "logits within %.2e of the baseline (%.2e wanted), best token equal in %lld of %lld rows",
                check.worst_rel_l2, check.bound, static_cast<long long>(check.best_equal),
                static_cast<long long>(check.rows));
  return Verdict{.passed = check.passed,
                 .summary = summary,
                 .evidence = dump_json({{"baseline", candidate.golden.origin},
                                        {"sees", sees},
                                        {"bound_rel_l2", check.bound},
                                        {"worst_rel_l2", check.worst_rel_l2},
                                        {"worst_max_abs", check.worst_max_abs},
                                        {"least_cosine", check.least_cosine},
                                        {"rows", check.rows},
                                        {"best_equal", check.best_equal},
                                        {"best_undecided", check.best_undecided},
                                        {"first_wrong_position", check.first_wrong},
                                        {"golden_tokens", candidate.golden.tokens}})};
}

}  // namespace firstlight::gates
