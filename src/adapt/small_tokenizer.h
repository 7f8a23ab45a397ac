// SPDX-License-Identifier: Apache-2.0
// A byte-level tokenizer of 256 bytes and three special tokens, for checkpoints whose own vocabulary is not at hand.
#pragma once

#include <cstdint>
#include <string>

namespace firstlight::adapt {

inline constexpr int64_t kSmallBos = 256, kSmallEos = 257, kSmallPad = 258;
inline constexpr int64_t kSmallVocabulary = 272;  // rows of an embedding: the ids above, to whole 16s

std::string small_tokenizer_json();    // tokenizer.json
std::string small_tokenizer_config();  // tokenizer_config.json

}  // namespace firstlight::adapt
