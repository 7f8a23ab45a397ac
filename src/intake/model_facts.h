// SPDX-License-Identifier: Apache-2.0
// What a model says about itself beyond its computation, gathered from every file that says it: token ids that begin,
// pad and end a text. An answer ends on the union of all ends.
#pragma once

#include <string_view>

#include "base/status.h"
#include "intake/intake.h"

namespace firstlight::formats {
class GgufFile;
}

namespace firstlight::intake {

// Adds what the graph's facts say (from the config).
void add_config_tokens(const ir::Graph& graph, std::string_view source, TokenFacts& facts);
// Errors: kInvalidData (not JSON, or an eos_token_id that is neither a number nor a list of numbers).
Status add_generation_tokens(std::string_view generation_config, TokenFacts& facts);
void add_gguf_tokens(const formats::GgufFile& file, TokenFacts& facts);

}  // namespace firstlight::intake
