// SPDX-License-Identifier: Apache-2.0
// See detokenizer.h. The work is the Decoder's; whole decoding is the same calls in a row.
#include "text/detokenizer.h"

#include <utility>

#include "text/tokenizers/tokenizer_parts.h"

namespace firstlight::text {

Detokenizer::Detokenizer(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options), state_(tokenizer_.parts().decoder.begin()) {}

std::string Detokenizer::push(int32_t id, bool skip_special) {
  std::string delta;
  push_token(tokenizer_.parts(), id, {.skip_special = skip_special}, state_, delta);
  return delta;
}

std::string Detokenizer::flush() {
  std::string rest;
  tokenizer_.parts().decoder.finish(state_, rest);
  return rest;
}

}  // namespace firstlight::text
