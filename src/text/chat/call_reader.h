// SPDX-License-Identifier: Apache-2.0
// One tool call (or one list of them) of a stream of text: whether it begins here, and then its arguments as they come.
// Until its name is known to be one of the request's tools nothing is said; from then on it is a call, whatever comes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/chat/call_object.h"
#include "text/chat/chat_format.h"
#include "text/chat/chat_parts.h"
#include "text/chat/parameter_reader.h"
#include "text/chat/tool_set.h"
#include "text/chat/value_scanner.h"

namespace firstlight::text {

class CallReader {
 public:
  // Both must outlive the reader. `one_only`: a list ends after its first call.
  CallReader(const CallSyntax& syntax, const ToolSet& tools, bool one_only)
      : syntax_(syntax), tools_(tools), one_only_(one_only) {}

  // Whether `text` begins with a call; on kYes the call has begun and `length` bytes were its head. `bare`: forms that
  // have no mark in front count too. With `over` nothing will come.
  Match begin(std::string_view text, bool bare, bool over, size_t& length, ChatParts& out);

  // Takes what it can use off the front of `text` and says how much that was.
  size_t read(std::string_view text, bool over, ChatParts& out);
  bool done() const { return state_ == State::kDone; }

  // Whether a control token here may be more than a slip: not amid arguments, but where they have such marks.
  bool has_use_for(std::string_view control) const;

  // The stream is over; `rest` is what read() left. `complete`: by the model's own will, so a list of whole parameters
  // is closed; else the arguments end where they were cut, and what has to be read as a whole is left out.
  void finish(std::string_view rest, bool complete, ChatParts& out);

  // The stream was cut in `text`, for which begin() wants more: whether it is taken for the head of a call, which then
  // has begun if its name is whole. `marked`: there is a mark in front of it already; what has none is taken for a head
  // where it begins as a call of one of the tools should be written.
  bool cut(std::string_view text, bool bare, bool marked, ChatParts& out) const;

 private:
  enum class State { kDone, kJson, kMembers, kNext, kLoose, kPython, kParameters, kTail };

  Match begin_body(const Pattern& pattern, std::string_view text, size_t head, bool over, Captures& captures,
                   size_t& length, ChatParts& out);
  Match begin_object(std::string_view text, bool over, size_t& length, ChatParts& out);
  Match begin_python(std::string_view text, bool over, size_t& length, ChatParts& out);
  size_t read_json(std::string_view text, bool over, ChatParts& out);
  size_t read_members(std::string_view text, bool over, ChatParts& out);
  size_t read_next(std::string_view text, bool over, ChatParts& out);
  size_t read_collected(std::string_view text, bool over, ChatParts& out);
  size_t read_parameters(std::string_view text, bool over, ChatParts& out);
  size_t read_tail(std::string_view text, bool over);
  size_t step(std::string_view text, bool over, ChatParts& out);
  std::string cut_name(std::string_view object) const;
  bool may_be_call(Hole body, std::string_view text) const;
  void end_call(ChatParts& out, State next);

  const CallSyntax& syntax_;
  const ToolSet& tools_;
  bool one_only_;
  State state_ = State::kDone;
  const Pattern* pattern_ = nullptr;
  bool in_list_ = false;
  int levels_ = 0;  // of a call's object that are open behind its arguments
  ValueScanner scanner_;
  bool as_string_ = false;  // the arguments are a JSON string with JSON in it
  std::string collected_;   // arguments that go out whole
  std::optional<ParameterReader> parameters_;
};

}  // namespace firstlight::text
