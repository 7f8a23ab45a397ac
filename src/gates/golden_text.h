// SPDX-License-Identifier: Apache-2.0
// What golden prompts are made of: a text of our own, prose, code, numbers and other scripts, or where a model has no
// tokenizer ids from a fixed seed; and which positions are looked at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapt/text_assets.h"
#include "gates/horizons.h"

namespace firstlight::gates {

// The first `length` ids of the text as the tokenizer has it; a longer one begins anew, its parts in another order.
std::vector<int32_t> golden_tokens(const adapt::TextAssets& assets, int64_t vocabulary, int64_t length);

// At most `most` positions of a prompt, ascending: both sides of every horizon, the last ones, the rest evenly spread.
std::vector<int64_t> positions_to_check(int64_t length, std::span<const Horizon> horizons, int64_t most);

}  // namespace firstlight::gates
