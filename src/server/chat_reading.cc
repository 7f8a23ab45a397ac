// SPDX-License-Identifier: Apache-2.0
#include "server/chat_reading.h"

#include <utility>

#include "base/json.h"

namespace firstlight::server {

std::shared_ptr<const ChatProfile> make_chat_profile(text::ChatFormat format, const text::Tokenizer& tokenizer) {
  auto profile = std::make_shared<ChatProfile>();
  profile->marks_with_calls = format.special_marks(tokenizer, true);
  profile->marks_without_calls = format.special_marks(tokenizer, false);
  profile->format = std::make_shared<const text::ChatFormat>(std::move(format));
  return profile;
}

std::shared_ptr<ChatReading> make_chat_reading(std::shared_ptr<const ChatProfile> profile, const Json& tools,
                                               std::string_view prompt_end) {
  if (profile == nullptr) return nullptr;
  const text::ChatFormat& format = *profile->format;
  auto reading = std::make_shared<ChatReading>();
  if (format.calls && tools.is_array()) reading->tools = std::make_shared<const text::ToolSet>(tools);
  if (reading->tools == nullptr && format.thinking.empty() && format.dropped.empty()) return nullptr;
  reading->prompt_end = format.open_end(prompt_end);
  reading->profile = std::move(profile);
  return reading;
}

ApiError apply_reasoning_effort(const ChatProfile* profile, const std::string& effort, Json& variables) {
  if (effort.empty()) return {};
  const bool off = effort == "none";
  static const std::vector<std::string> kNone;
  const auto& switches = profile == nullptr ? kNone : profile->format->effort_switches;
  const auto& levels = profile == nullptr ? kNone : profile->format->effort_levels;
  if (switches.empty() && (levels.empty() || off)) {
    return unsupported_field("reasoning_effort", off && !levels.empty() ? "'none': this model always thinks"
                                                                        : "the model's prompts have no place for it");
  }
  const auto set = [&](const std::string& name, Json value) {
    if (!variables.contains(name)) variables[name] = std::move(value);
  };
  for (const std::string& name : switches) set(name, !off);
  for (const std::string& name : levels) {
    if (!off) set(name, effort);
  }
  return {};
}

}  // namespace firstlight::server
