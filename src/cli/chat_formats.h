// SPDX-License-Identifier: Apache-2.0
// Which chat format (chat_formats/) a loaded model's answers follow.
#pragma once

#include <string>

#include "adapt/text_assets.h"
#include "text/chat/chat_format.h"

namespace firstlight::cli {

// `wanted`: "" or "auto": the one the template, a sample of what it renders and the tokens show; "none": answers are
// text; the name of a shipped one, or a TOML file, whatever the model looks like. Errors: an unknown name, a bad file.
Result<text::ChatFormat> choose_chat_format(const adapt::TextAssets& assets, const std::string& wanted);

}  // namespace firstlight::cli
