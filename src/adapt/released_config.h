// SPDX-License-Identifier: Apache-2.0
// The config files of a released checkpoint, from what intake derives of a GGUF.
#pragma once

#include <string>
#include <vector>

#include "intake/intake.h"
#include "tensor/dtype.h"

namespace firstlight::adapt {

// config.json, with rotary parameters in the spelling that every version of the reference library reads (rope_theta
// beside rope_scaling). `tied`: the head is the embedding, whatever the GGUF says. Rotary divisors become the llama3
// parameters that give them; where none do, they stay divisors, which only Firstlight reads, and a warning says so.
std::string released_config_text(const intake::ReleasedForm& form, tensor::DType dtype, bool tied,
                                 std::vector<std::string>& warnings);

// The tree as JSON text, keys in its order.
std::string config_json_text(const intake::ConfigNode& config);

// generation_config.json: the token ids that begin, pad and end a text.
std::string generation_config_text(const intake::TokenFacts& tokens);

}  // namespace firstlight::adapt
