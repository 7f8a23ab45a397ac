// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion_rules.h"

namespace firstlight::compiler {
namespace {

constexpr int kFewUnits = 16;  // beyond them a row normalised per unit costs more than a step of its own

}  // namespace

FusionRules fusion_rules(const target::Execution& execution) {
  const bool wide = execution.wide_units > kFewUnits;
  return {.max_norm_users = wide ? size_t{0} : size_t{3}, .residual_with_norm = wide};
}

}  // namespace firstlight::compiler
