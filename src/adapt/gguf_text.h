// SPDX-License-Identifier: Apache-2.0
// A GGUF's metadata as the text module takes it.
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "text/gguf_vocabulary.h"

namespace firstlight::adapt {

// Errors: kNotFound where the file has no vocabulary, kInvalidData for a key of another type.
Result<text::GgufVocabulary> read_gguf_vocabulary(const formats::GgufFile& file);

}  // namespace firstlight::adapt
