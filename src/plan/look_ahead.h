// SPDX-License-Identifier: Apache-2.0
// Whether a plan's attention looks at later tokens of its sequence. Such a plan gives another answer when a prompt
// comes in pieces, since the first of them cannot see the last: whoever feeds it runs a prompt whole.
#pragma once

#include "plan/plan.h"

namespace firstlight::plan {

bool sees_later_tokens(const Plan& plan);

}  // namespace firstlight::plan
