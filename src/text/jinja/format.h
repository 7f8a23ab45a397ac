// SPDX-License-Identifier: Apache-2.0
// Python's two formatting languages: "%s" % values and "{}".format(values), with the presentation types that str, int
// and float have. What is taken over from an argument keeps its provenance, padding that of the format string.
#pragma once

#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

Result<Value> format_percent(Runtime& runtime, const Text& format, const Value& values);
Result<Value> format_braces(Runtime& runtime, const Text& format, const CallArgs& args);

}  // namespace firstlight::text::jinja
