// SPDX-License-Identifier: Apache-2.0
// What of a sequence, beside its tokens so far, a plan's results depend on: later tokens, or the length it is planned
// to reach. An attention that looks at later tokens gives another answer when a prompt comes in pieces, since the first
// of them cannot see the last: whoever feeds it runs a prompt whole. Rotary tables that follow the planned length make
// states that only sequences of the same table can share.
#pragma once

#include <string>

#include "plan/plan.h"

namespace firstlight::plan {

bool sees_later_tokens(const Plan& plan);

// Equal for two planned lengths exactly when every rotary table of the plan is; "" for both where there is one table.
std::string length_class(const Plan& plan, int64_t planned_length);

}  // namespace firstlight::plan
