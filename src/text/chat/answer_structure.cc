// SPDX-License-Identifier: Apache-2.0
#include "text/chat/answer_structure.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/json.h"

namespace firstlight::text {
namespace {

// From within a thought to its end and the text between it and the answer.
Json rest_of_thought(const ChatFormat& format, const ThinkingMarks& marks) {
  Json out = Json::array({{{"without", marks.close}}, marks.close + format.after_thinking});
  if (format.after_thinking.empty()) out.push_back({{"any", {"", "\n", "\n\n"}}});
  return out;
}

// Without what the prompt has written of it.
std::string but(const std::string& text, std::string_view written) {
  return text.starts_with(written) ? text.substr(written.size()) : text;
}

}  // namespace

Json answer_structure(const ChatFormat& format, std::string_view prompt, Json text, Json calls) {
  std::string_view written = format.open_end(prompt);
  const std::string_view trimmed = trim_blanks(prompt);
  Json out = Json::array();
  bool may_think = written.empty() || written != format.text_begin;
  for (const ThinkingMarks& marks : format.thinking) {
    if (marks.open == written) {
      out.push_back(rest_of_thought(format, marks));
      written = "";
      may_think = false;
    }
    may_think &= !trimmed.ends_with(marks.close);
  }
  if (may_think && !format.thinking.empty()) {
    Json thoughts = Json::array();
    for (const ThinkingMarks& marks : format.thinking) {
      thoughts.push_back(Json::array({marks.open, rest_of_thought(format, marks)}));
    }
    out.push_back({{"optional", {{"any", std::move(thoughts)}}}});
  }
  Json ways = Json::array();
  if (!text.is_null()) {
    ways.push_back(Json::array({but(format.text_begin, written), std::move(text), format.text_end}));
  }
  if (!calls.is_null()) ways.push_back(Json::array({but(format.before_calls, written), std::move(calls)}));
  out.push_back({{"any", std::move(ways)}});
  return out;
}

}  // namespace firstlight::text
