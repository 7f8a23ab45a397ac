// SPDX-License-Identifier: Apache-2.0
// The name Json without the library: for headers that pass it by reference or hand it out. base/json.h has the rest.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace firstlight {

using Json = nlohmann::ordered_json;

}  // namespace firstlight
