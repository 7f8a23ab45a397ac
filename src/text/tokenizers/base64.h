// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, standard alphabet), as tokenizer files carry binary tokens and tables.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace firstlight::text {

// Errors: kInvalidData for other characters, data after padding, or an impossible length. Padding may be missing.
Result<std::string> decode_base64(std::string_view text);

}  // namespace firstlight::text
