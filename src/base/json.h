// SPDX-License-Identifier: Apache-2.0
// JSON with key order kept, read with limits. Heavy header: include it in .cc files only. For files with very large
// objects (a tokenizer's vocabulary) use simdjson instead: an ordered object looks its keys up one by one.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"

namespace firstlight {

// Parses one JSON document. Errors: kInvalidData with line and column; nesting deeper than `max_depth` is refused too.
// Strings must be valid UTF-8.
Result<Json> parse_json(std::string_view text, int max_depth = 128);

// Compact text; never fails (invalid UTF-8 in strings is replaced).
std::string dump_json(const Json& value, int indent = -1);

}  // namespace firstlight
