// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the chat template engine: any bytes as a template over a fixed context give a text within the limits,
// or a Status with a message.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/chat_template.h"

namespace {

constexpr std::string_view kContext = R"({"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":
"Hi \u00e9 <|im_end|>"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},
{"role":"tool","content":[{"type":"text","text":"x"}]}],"tools":[{"type":"function","function":{"name":"f","parameters":
{"type":"object","properties":{"a":{"type":"integer","enum":[1,2.5]}}}}}],"add_generation_prompt":true,"x":1,"s":"abc",
"l":[3,1,2],"d":{"b":1,"a":[true,null]},"bos_token":"<s>"})";

constexpr size_t kLongest = 1 << 16;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kLongest) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto out = firstlight::text::render_template(source, kContext, 0);
  if (!out.ok()) {
    FL_CHECK(out.code() == firstlight::StatusCode::kInvalidArgument || !out.status().message().empty());
    return 0;
  }
  bool first = true;
  bool trusted = false;
  for (const auto& segment : out->segments) {
    FL_CHECK(!segment.text.empty());
    FL_CHECK(first || segment.trusted != trusted);
    first = false;
    trusted = segment.trusted;
  }
  return 0;
}
