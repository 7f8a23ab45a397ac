// SPDX-License-Identifier: Apache-2.0
// TOML, in which our own configuration files are written, as the JSON value that says the same. The library behind it
// is included in toml.cc alone.
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"

namespace firstlight {

// Tables become objects with their keys in alphabetical order, dates their text. Errors: kInvalidData with line and
// column.
Result<Json> parse_toml(std::string_view text);

}  // namespace firstlight
