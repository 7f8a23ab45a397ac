// SPDX-License-Identifier: Apache-2.0
// Decoding one token at a time, for streams. The deltas joined, with the one of flush(), equal Tokenizer::decode of all
// ids; each delta is valid UTF-8, and nothing is held back but an incomplete valid sequence (and, for the few decoders
// whose last token differs from the others, that token).
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/tokenizers/decoder.h"

namespace firstlight::text {

// Belongs to one stream and one thread at a time.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, DecodeOptions options = {});

  // The text that this token makes certain; often the whole token, sometimes nothing.
  std::string push(int32_t id) { return push(id, options_.skip_special); }
  // The same for one token with its own answer to whether special tokens are left out.
  std::string push(int32_t id, bool skip_special);

  // The tokens are over: what was held back (an incomplete sequence becomes U+FFFD). The next push starts a new text.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  Decoder::State state_;
};

}  // namespace firstlight::text
