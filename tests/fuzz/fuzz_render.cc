// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the shipped render functions: any request as JSON gives a prompt whose trusted text is the format's
// own, or a Status with a message.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "intake/spec_renderer.h"
#include "text/chat_renderer.h"

namespace {

using firstlight::Json;

constexpr firstlight::intake::SandboxLimits kLimits = {
    .steps = 3'000'000, .memory_bytes = int64_t{64} << 20, .seconds = 5};

std::unique_ptr<firstlight::text::ChatRenderer> open(const char* model_type) {
  return firstlight::intake::open_spec_renderer({}, model_type, kLimits).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::array renderers = {open("deepseek_v32"), open("deepseek_v4"), open("gpt_oss"), open("kimi_k3")};
  const auto request = firstlight::parse_json({reinterpret_cast<const char*>(data), size});
  if (!request.ok() || !request->is_object()) return 0;
  firstlight::text::ChatContext context{.now_unix_s = 0};
  const auto take = [&](const char* name, Json& value) {
    if (request->contains(name)) value = (*request)[name];
  };
  take("messages", context.messages);
  take("tools", context.tools);
  take("variables", context.variables);
  take("tool_choice", context.tool_choice);
  take("response_format", context.response_format);
  for (const auto& renderer : renderers) {
    const auto prompt = renderer->render(context);
    if (!prompt.ok()) {
      FL_CHECK(!prompt.status().message().empty());
      continue;
    }
    bool first = true, trusted = false;
    for (const auto& segment : prompt->segments) {
      FL_CHECK(!segment.text.empty());
      FL_CHECK(first || segment.trusted != trusted);
      first = false;
      trusted = segment.trusted;
    }
  }
  return 0;
}
