// SPDX-License-Identifier: Apache-2.0
// A model's answer, as it comes, to content, thoughts and tool calls, by a ChatFormat. What is held back is what may
// yet become a mark (with the white space in front of it) or the head of a call; the parts joined are the same however
// the text was cut.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/call_reader.h"
#include "text/chat/chat_format.h"
#include "text/chat/chat_parts.h"
#include "text/chat/tool_set.h"

namespace firstlight::text {

class ChatParser {
 public:
  struct Options {
    bool calls = false;     // look for calls of the tools; else their marks are text
    bool one_call = false;  // the answer is over with its first call
  };

  // `format` must not be null; `tools` may be where calls are not wanted.
  ChatParser(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const ToolSet> tools, Options options);

  ChatParser(const ChatParser&) = delete;
  ChatParser& operator=(const ChatParser&) = delete;

  // The prompt's end that the answer goes on from (ChatFormat::open_end). Before any push().
  void continue_from(std::string_view prompt_end);

  // The answer goes on a message whose text so far is this: what stands in it is no output, but for a call that it
  // breaks off in, which comes back from its beginning. In place of continue_from().
  void continue_message(std::string_view text);

  // The last `control` bytes are a control token's: a mark, or a piece of one, or else nothing that is ever shown.
  std::vector<ChatPart> push(std::string_view text, size_t control = 0);
  // The answer is over: the model ended it (`complete`), or it was cut. What was held back is text if the model ended
  // it there; cut in a mark or the head of a call it is left out, but a call whose name is known has begun. A call
  // keeps the arguments it has. So what a cut answer has is the beginning of what the longer one has.
  std::vector<ChatPart> finish(bool complete);

  bool in_thoughts() const { return state_ == State::kThoughts; }
  int64_t num_calls() const { return parts_.num_begun(); }
  bool is_over() const { return options_.one_call && parts_.num_ended() > 0; }

 private:
  enum class State { kText, kThoughts, kCall, kBetween };
  // Text of one kind: white space at its ends is kept back, since beside a mark it belongs to the mark.
  struct Flow {
    ChatPart::Kind kind;
    bool begun = false;
    bool after_mark = false;
    std::string blanks;
  };
  struct Found {
    Match match = Match::kNo;
    enum class What { kCall, kOpen, kClose, kDrop } what = What::kDrop;
    size_t length = 0;
    size_t marks = 0;  // which pair
  };

  std::string_view rest() const { return std::string_view(held_).substr(at_); }
  void advance(bool over);
  bool step_text(bool over);
  bool step_call(bool over);
  bool step_between(bool over);
  Found look(bool over);
  Match look_for_call(std::string_view text, bool over, size_t& length);
  void look_for_marks(std::string_view text, bool over, std::vector<Found>& found) const;
  bool is_cut_mark();
  void cut();
  void act(const Found& found);
  void write(Flow& flow, std::string_view text);
  void pass(size_t length);  // the front of rest() is text
  void drop(size_t length);
  std::vector<ChatPart> take_parts();
  void mark();
  void note_first(std::string_view mark);
  Flow& flow() { return in_thoughts() ? thoughts_ : content_; }

  std::shared_ptr<const ChatFormat> format_;
  std::shared_ptr<const ToolSet> tools_;
  Options options_;
  bool calls_active_ = false;
  std::array<bool, 256> first_{};  // bytes that a mark may begin with
  CallSyntax no_calls_;
  CallReader reader_;
  ChatParts parts_;
  State state_ = State::kText;
  Flow content_{.kind = ChatPart::Kind::kContent, .blanks = ""},
      thoughts_{.kind = ChatPart::Kind::kReasoning, .blanks = ""};
  size_t pair_ = 0;          // the marks of the thoughts we are in
  bool has_closed_ = false;  // a thought was closed, or a closing mark dropped
  bool in_section_ = false;  // between the marks around all calls
  std::string held_;
  size_t at_ = 0;  // of held_: what is before has been dealt with
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> controls_;  // of held_: control tokens, in order
  size_t unseen_ = 0;            // bytes at the front of rest() that came from the prompt and are no output
  bool continues_message_ = false;
  std::vector<ChatPart> carried_;  // of a call that the message broke off in
};

}  // namespace firstlight::text
