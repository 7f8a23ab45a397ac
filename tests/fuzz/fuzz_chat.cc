// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the parser of answers: the first byte chooses a format, the second how the rest is cut. Any text must
// give the same fields in whatever pieces it comes, and calls of known tools alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "text/chat/chat_parser.h"

namespace {

using firstlight::Json;
namespace text = firstlight::text;

constexpr size_t kLongest = 1 << 15;

struct Answer {
  std::string fields[2];  // content, thoughts
  std::string calls;      // names and arguments, with marks between them
};

const std::vector<std::shared_ptr<const text::ChatFormat>>& formats() {
  static const auto list = [] {
    std::vector<std::shared_ptr<const text::ChatFormat>> out;
    const auto files = text::shipped_chat_formats().value();
    for (const auto& file : files) {
      text::ChatFormat format = file.format;
      if (format.thinking.empty()) format.thinking = {{.open = "<think>", .close = "</think>"}};
      out.push_back(std::make_shared<const text::ChatFormat>(std::move(format)));
    }
    return out;
  }();
  return list;
}

const std::shared_ptr<const text::ToolSet>& tools() {
  static const auto set = std::make_shared<const text::ToolSet>(*firstlight::parse_json(
      R"([{"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "i": {"type": "integer"}}}}, {"name": "g"}])"));
  return set;
}

Answer parse(const std::shared_ptr<const text::ChatFormat>& format, std::string_view source, size_t step, bool open) {
  text::ChatParser parser(format, tools(), {.calls = true});
  if (open) parser.continue_from(format->thinking[0].open);
  Answer out;
  const auto add = [&](const std::vector<text::ChatPart>& parts) {
    for (const text::ChatPart& part : parts) {
      switch (part.kind) {
        case text::ChatPart::Kind::kContent:
          out.fields[0] += part.text;
          break;
        case text::ChatPart::Kind::kReasoning:
          out.fields[1] += part.text;
          break;
        case text::ChatPart::Kind::kCall:
          FL_CHECK(tools()->knows(part.text));
          FL_CHECK(!part.id.empty());
          out.calls += "\1" + part.text + "\2";
          break;
        case text::ChatPart::Kind::kArguments:
          FL_CHECK(!out.calls.empty());
          out.calls += part.text;
          break;
        case text::ChatPart::Kind::kCallEnd:
          out.calls += "\3";
          break;
      }
    }
  };
  for (size_t at = 0; at < source.size();) {
    size_t size = std::min(step, source.size() - at);
    while (at + size < source.size() && (static_cast<unsigned char>(source[at + size]) & 0xC0) == 0x80) ++size;
    add(parser.push(source.substr(at, size)));
    at += size;
  }
  add(parser.finish(true));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > kLongest) return 0;
  const auto& format = formats()[data[0] % formats().size()];
  const bool open = (data[1] & 0x80) != 0;
  const std::string_view source(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Answer whole = parse(format, source, source.size(), open);
  const Answer pieces = parse(format, source, 1 + (data[1] & 0x0F), open);
  FL_CHECK(whole.fields[0] == pieces.fields[0]);
  FL_CHECK(whole.fields[1] == pieces.fields[1]);
  FL_CHECK(whole.calls == pieces.calls);
  return 0;
}
