// SPDX-License-Identifier: Apache-2.0
// The functions every template can call: range, dict, namespace, cycler, joiner of Jinja2; raise_exception and
// strftime_now of transformers.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

// The function as a value, nothing if there is none of that name.
std::optional<Value> find_global(std::string_view name);
// Errors: kInvalidArgument with the template's own words for raise_exception.
Result<Value> call_global(Runtime& runtime, std::string_view name, CallArgs args);
// Sets an attribute; names that start with "_" are refused, as transformers does.
Status set_namespace(Namespace& target, const std::string& name, Value value);

}  // namespace firstlight::text::jinja
