// SPDX-License-Identifier: Apache-2.0
// The name of the JSON type alone, for headers.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace firstlight {

using Json = nlohmann::ordered_json;

}  // namespace firstlight
