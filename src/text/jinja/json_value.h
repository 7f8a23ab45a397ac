// SPDX-License-Identifier: Apache-2.0
// JSON from outside as template values.
#pragma once

#include "base/json_fwd.h"
#include "base/status.h"
#include "text/jinja/value.h"

namespace firstlight::text::jinja {

// Every string in it is `trusted` or not; with `trust_roles` the value of a "role" key that is one of the usual role
// names is trusted as well (templates build control tokens from it, and a name of a fixed list can not smuggle
// anything).
struct JsonTrust {
  bool trusted = false;
  bool trust_roles = false;
};

// Errors: kUnsupported when nested too deep.
Result<Value> from_json(const Json& json, JsonTrust trust);

}  // namespace firstlight::text::jinja
