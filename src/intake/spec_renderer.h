// SPDX-License-Identifier: Apache-2.0
// Prompts made by a spec: its `render` function, run in the sandbox over the messages of one request. For families
// whose releases have no chat template. docs/chat_prompts.md says how to write one.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "intake/intake.h"
#include "intake/trace_record.h"

namespace firstlight::text {
class ChatRenderer;
}

namespace firstlight::intake {

// Of one prompt: a request has to end soon, whatever it says.
inline constexpr SandboxLimits kPromptLimits = {.steps = 30'000'000, .memory_bytes = int64_t{256} << 20, .seconds = 10};

// The renderer of the spec for this model type; null where no spec matches or the one that does has no `render`. Each
// prompt is made in a state of its own, so that nothing is kept from one request to the next. Errors: of the specs'
// own text, with file and line.
Result<std::unique_ptr<text::ChatRenderer>> open_spec_renderer(const IntakeOptions& options,
                                                               const std::string& model_type,
                                                               const SandboxLimits& limits = kPromptLimits);

}  // namespace firstlight::intake
