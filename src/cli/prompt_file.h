// SPDX-License-Identifier: Apache-2.0
// A file of prompts: JSON (a list whose entries are texts or lists of token ids; or an object that has it as "prompts",
// or one list of ids as "prompt"), or else a text per line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapt/text_assets.h"
#include "base/status.h"

namespace firstlight::cli {

// Errors: kNotFound, kInvalidData (an entry that is neither, no prompt at all), and the tokenizer's where a text needs
// it.
Result<std::vector<std::vector<int32_t>>> read_prompts(const std::string& path, const adapt::TextAssets& assets);

}  // namespace firstlight::cli
