// SPDX-License-Identifier: Apache-2.0
// Runs a checked template over a context. One rendering is one Renderer: it owns the budget, the scopes and everything
// the template creates, and cuts the reference cycles that namespaces and macros can form when it is done.
#pragma once

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

struct RenderInput {
  std::vector<std::pair<std::string, Value>> variables;
  std::tm now{};
  Limits limits;
};

// The text with its provenance. Errors: kInvalidArgument with the template's own message (raise_exception);
// kInvalidData
// ("line N: …") where Jinja2 or Python would raise; kUnsupported for limits.
Result<Text> render(const Tree& tree, const RenderInput& input);

}  // namespace firstlight::text::jinja
