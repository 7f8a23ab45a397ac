// SPDX-License-Identifier: Apache-2.0
// Arguments written as a list of parameters ("<parameter=city>Paris</parameter>…") to JSON text, piece by piece:
// strings go out as they come, other values when they are there. Types come from the list where it states them, else
// from the tool's schema.
#pragma once

#include <string>
#include <string_view>

#include "text/chat/chat_parts.h"
#include "text/chat/tool_set.h"

namespace firstlight::text {

class ParameterReader {
 public:
  // `parameter` is {key} and {value} with text around; both must outlive the reader.
  ParameterReader(const Pattern& parameter, const ToolSet& tools, std::string function);

  // Whether a parameter begins here, and if so takes its head.
  Match begin(std::string_view text, bool over, size_t& length, ChatParts& out);
  bool in_value() const { return in_value_; }
  // In a value: takes what belongs to it, and the text behind it.
  size_t read(std::string_view text, ChatParts& out);
  // In a value: whether the text behind it has this control token in it.
  bool may_close_with(std::string_view control) const { return close_.find(control) != std::string::npos; }
  // The list is over, at its end (the object is closed) or in the midst of a value (what there is goes out).
  void end(ChatParts& out);
  void cut(std::string_view rest, ChatParts& out);

 private:
  size_t safe_length(std::string_view text) const;
  void value(std::string_view text, bool last, ChatParts& out);

  const Pattern& parameter_;
  const ToolSet& tools_;
  std::string function_;
  std::string close_;                              // the text behind a value, white space apart
  bool line_before_ = false, line_after_ = false;  // one line break on that side of the value is not part of it
  bool in_value_ = false, at_value_start_ = false, is_string_ = false;
  bool any_ = false;  // a parameter has been written
  TypeSet types_ = 0;
  std::string held_;  // a value that goes out whole
};

}  // namespace firstlight::text
