// SPDX-License-Identifier: Apache-2.0
// What the program takes from environment variables; nothing below reads them.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace firstlight::cli {

// Where built kernels are kept between runs: $FIRSTLIGHT_CACHE, which must be this user's alone (kUnavailable else), or
// $XDG_CACHE_HOME/firstlight, or ~/.cache/firstlight. Empty, and nothing is kept, where none of them will do.
Result<std::filesystem::path> cache_folder();

// The C++ compiler that builds generated kernels: $FIRSTLIGHT_CXX or $CXX; empty: looked for on the path.
std::string host_compiler();

}  // namespace firstlight::cli
