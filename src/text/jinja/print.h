// SPDX-License-Identifier: Apache-2.0
// Python's str() and repr() of every value, with provenance: the words of strings keep theirs, numbers are untrusted,
// the punctuation of containers is trusted only if all their strings are.
#pragma once

#include "text/jinja/value.h"

namespace firstlight::text::jinja {

// str(value): strings as they are (undefined: empty).
Text to_text(const Value& value);
// repr(value): strings quoted and escaped.
Text to_repr(const Value& value);
// repr of a string alone: quotes chosen and characters escaped as Python does.
std::string quote(std::string_view text);

// Whether every string inside is trusted (so that text made from the value as a whole is).
bool is_trusted(const Value& value);

}  // namespace firstlight::text::jinja
