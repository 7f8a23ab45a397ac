// SPDX-License-Identifier: Apache-2.0
// The pass between parsing and rendering: resolves filters and tests, finds which implicit arguments macros use, and
// turns everything the engine does not carry into an error at load with construct and line. Like Jinja2 it lets an
// unknown filter or test pass inside a condition (a template may ask for what it has), where reaching it is the error.
#pragma once

#include "text/jinja/ast.h"

namespace firstlight::text::jinja {

// Errors: kUnsupported (a construct of Jinja2 or Python that is not carried), kInvalidData (what Jinja2 refuses too).
Status check(Tree& tree);

}  // namespace firstlight::text::jinja
