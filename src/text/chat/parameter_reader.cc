// SPDX-License-Identifier: Apache-2.0
#include "text/chat/parameter_reader.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
namespace firstlight::text {
namespace {

using Kind = PatternPart::Kind;

// The inside of a JSON string.
std::string escaped(std::string_view text) {
  const std::string quoted = dump_json(Json(text));
  return quoted.substr(1, quoted.size() - 2);
}

std::string_view captured(const Captures& captures, Hole hole) { return captures[static_cast<size_t>(hole)]; }

}  // namespace

ParameterReader::ParameterReader(const Pattern& parameter, const ToolSet& tools, std::string function)
    : parameter_(parameter), tools_(tools), function_(std::move(function)) {
  line_before_ = parameter.head.back().kind == Kind::kSpace;
  line_after_ = parameter.tail.front().kind == Kind::kSpace;
  close_ = parameter.tail[line_after_ ? 1 : 0].text;
}

Match ParameterReader::begin(std::string_view text, bool over, size_t& length, ChatParts& out) {
  Captures captures;
  const std::span<const PatternPart> head(parameter_.head.data(), parameter_.head.size() - (line_before_ ? 1 : 0));
  const Match match = match_parts(head, text, over, captures, length);
  if (match != Match::kYes) return match;
  const std::string key(captured(captures, Hole::kKey));
  types_ = tools_.types(function_, key);
  const std::string_view type = captured(captures, Hole::kType), flag = captured(captures, Hole::kString);
  if (type == "string" || flag == "true") {
    types_ = kString;
  } else if (!type.empty() || !flag.empty()) {
    types_ = static_cast<TypeSet>(kInteger | kNumber | kBoolean | kObject | kArray | kNull);
  }
  is_string_ = types_ == kString;
  in_value_ = at_value_start_ = true;
  out.add(ChatPart::Kind::kArguments, (any_ ? "," : "{") + dump_json(Json(key)) + ":" + (is_string_ ? "\"" : ""));
  any_ = true;
  return match;
}

void ParameterReader::value(std::string_view text, bool last, ChatParts& out) {
  if (is_string_) {
    out.add(ChatPart::Kind::kArguments, escaped(text));
    if (last) out.add(ChatPart::Kind::kArguments, "\"");
    return;
  }
  held_ += text;
  if (last) out.add(ChatPart::Kind::kArguments, dump_json(typed_value(std::exchange(held_, ""), types_)));
}

// How much of a value without an end in sight is certain.
size_t ParameterReader::safe_length(std::string_view text) const {
  size_t safe = text.size() - open_end(close_, text);
  if (line_after_ && safe > 0 && text[safe - 1] == '\n') --safe;
  return safe;
}

size_t ParameterReader::read(std::string_view text, ChatParts& out) {
  if (text.empty()) return 0;
  size_t begin = 0;
  if (at_value_start_ && line_before_ && text.front() == '\n') begin = 1;
  const std::string_view rest = text.substr(begin);
  const size_t end = rest.find(close_);
  if (end == std::string_view::npos) {
    const size_t safe = safe_length(rest);
    // A line break in front is held while nothing else is there: it may be the one before the text behind.
    if (safe == 0) return at_value_start_ ? 0 : begin;
    at_value_start_ = false;
    value(rest.substr(0, safe), false, out);
    return begin + safe;
  }
  std::string_view taken = rest.substr(0, end);
  if (line_after_ && taken.ends_with('\n')) taken.remove_suffix(1);
  value(taken, true, out);
  in_value_ = at_value_start_ = false;
  return begin + end + close_.size();
}

void ParameterReader::end(ChatParts& out) { out.add(ChatPart::Kind::kArguments, any_ ? "}" : "{}"); }

void ParameterReader::cut(std::string_view rest, ChatParts& out) {
  if (!in_value_) return;
  const std::string text = held_ + std::string(rest);
  out.add(ChatPart::Kind::kArguments, is_string_ ? escaped(text) : text);
}

}  // namespace firstlight::text
