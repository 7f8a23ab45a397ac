// SPDX-License-Identifier: Apache-2.0
// A measured sensitivity as JSON, and read back, so that one measurement serves several budgets.
#pragma once

#include "base/json_fwd.h"
#include "gates/sensitivity.h"

namespace firstlight::gates {

Json json_of(const Effect& effect);    // kl, top1, perplexity
Json json_of(const Variant& variant);  // and bytes
// Keys `by`, `formats_run`, `units`, `uniform`, `computed`.
Json json_of(const Sensitivity& sensitivity);

// Errors: kInvalidData for what is no such document or speaks of other weights than the planner's checkpoint has (the
// unit is named).
Result<Sensitivity> read_sensitivity(const Json& document, const adapt::QuantPlanner& planner);

}  // namespace firstlight::gates
