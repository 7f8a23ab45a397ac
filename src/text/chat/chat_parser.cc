// SPDX-License-Identifier: Apache-2.0
#include "text/chat/chat_parser.h"

#include <algorithm>
#include <utility>

namespace firstlight::text {
namespace {

using Kind = ChatPart::Kind;

// A head of a call (in some formats a call's whole object) that is longer is none.
constexpr size_t kMaxHeldBytes = size_t{16} << 10;

size_t character_size(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

}  // namespace

ChatParser::ChatParser(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const ToolSet> tools, Options options)
    : format_(std::move(format)),
      tools_(tools == nullptr ? std::make_shared<const ToolSet>() : std::move(tools)),
      options_(options),
      calls_active_(options.calls && format_->calls.has_value() && !tools_->empty()),
      reader_(format_->calls ? *format_->calls : no_calls_, *tools_, options.one_call),
      parts_(format_->calls ? format_->calls->id : "") {
  for (const ThinkingMarks& marks : format_->thinking) {
    note_first(marks.open);
    note_first(marks.close);
  }
  for (const Pattern& one : format_->dropped) note_first(one.opener());
  if (!calls_active_) return;
  for (const std::string& mark : format_->calls->begin) note_first(mark);
  for (const Pattern& call : format_->calls->calls) {
    note_first(call.opener());
    if (call.opener().empty()) note_first("{"), note_first("[");
  }
}

void ChatParser::note_first(std::string_view mark) {
  if (!mark.empty()) first_[static_cast<unsigned char>(mark.front())] = true;
}

void ChatParser::continue_from(std::string_view prompt_end) {
  held_ = prompt_end;
  unseen_ = prompt_end.size();
  advance(false);
}

void ChatParser::continue_message(std::string_view text) {
  continues_message_ = true;
  continue_from(text);
  std::vector<ChatPart> parts = parts_.take();
  const auto last = std::find_if(parts.rbegin(), parts.rend(), [](const ChatPart& part) {
    return part.kind == Kind::kCall || part.kind == Kind::kCallEnd;
  });
  if (last == parts.rend() || last->kind == Kind::kCallEnd) return;
  carried_.assign(std::make_move_iterator(last.base() - 1), std::make_move_iterator(parts.end()));
}

std::vector<ChatPart> ChatParser::take_parts() {
  std::vector<ChatPart> out = std::exchange(carried_, {});
  for (ChatPart& part : parts_.take()) out.push_back(std::move(part));
  return out;
}

std::vector<ChatPart> ChatParser::push(std::string_view text, size_t control) {
  const std::string_view token = text.substr(text.size() - control);
  held_ += text.substr(0, text.size() - control);
  advance(false);
  const bool is_amid_arguments = state_ == State::kCall && !reader_.has_use_for(token);
  if (!token.empty() && !is_amid_arguments) {
    controls_.push_back({held_.size(), held_.size() + token.size()});
    held_ += token;
    advance(false);
  }
  held_.erase(0, at_);
  for (Range& one : controls_) one = {one.begin - std::min(one.begin, at_), one.end - std::min(one.end, at_)};
  std::erase_if(controls_, [](const Range& one) { return one.end == 0; });
  at_ = 0;
  return take_parts();
}

// What is left is held back since it may become something. Of what has no mark in front, that has to be likely.
bool ChatParser::is_cut_mark() {
  const std::string_view text = rest();
  if (calls_active_ && (!in_thoughts() || format_->calls->ends_thinking)) {
    const bool bare = !in_thoughts() && !content_.begun;
    if (format_->calls->begin.empty() && reader_.cut(text, bare, false, parts_)) return true;
    for (const std::string& begin : format_->calls->begin) {
      const Match match = match_literal(begin, text, false);
      if (match == Match::kMore) return true;
      if (match == Match::kYes && reader_.cut(text.substr(skip_blanks(text, begin.size())), true, true, parts_))
        return true;
    }
  }
  std::vector<Found> found;
  look_for_marks(text, false, found);
  return std::any_of(found.begin(), found.end(), [](const Found& one) { return one.match == Match::kMore; });
}

void ChatParser::cut() {
  advance(false);
  while (state_ != State::kCall && !rest().empty() && !is_over()) {
    if (state_ == State::kBetween) {
      const std::string_view text = trim_blanks(rest());
      const std::string& between = format_->calls->between;
      const size_t at = !between.empty() && text.starts_with(between) ? skip_blanks(text, between.size()) : 0;
      reader_.cut(text.substr(at), true, true, parts_);
    } else if (!is_cut_mark()) {
      pass(character_size(rest()));
      advance(false);
      continue;
    }
    drop(rest().size());
    mark();
  }
}

std::vector<ChatPart> ChatParser::finish(bool complete) {
  if (complete) {
    advance(true);
  } else {
    cut();
  }
  if (state_ == State::kCall) {
    reader_.finish(rest(), complete, parts_);
  } else {
    pass(rest().size());
    for (Flow* flow : {&thoughts_, &content_}) {
      if (!flow->after_mark) parts_.add(flow->kind, flow->blanks);
    }
  }
  at_ = held_.size();
  return take_parts();
}

void ChatParser::advance(bool over) {
  bool more = true;
  while (more && !is_over()) {
    switch (state_) {
      case State::kText:
      case State::kThoughts:
        more = step_text(over);
        break;
      case State::kCall:
        more = step_call(over);
        break;
      case State::kBetween:
        more = step_between(over);
        break;
    }
  }
  if (is_over()) at_ = held_.size();
}

void ChatParser::write(Flow& flow, std::string_view text) {
  const size_t first = skip_blanks(text);
  if (first == text.size()) {
    flow.blanks += text;
    return;
  }
  std::string lead = std::exchange(flow.blanks, "") + std::string(text.substr(0, first));
  if (flow.after_mark) {
    if (!flow.begun) {
      lead.clear();
    } else if (lead.empty()) {
      lead = "\n";
    }
  }
  text.remove_prefix(first);
  const size_t size = text.find_last_not_of(" \t\r\n") + 1;
  parts_.add(flow.kind, lead);
  parts_.add(flow.kind, text.substr(0, size));
  flow.blanks = text.substr(size);
  flow.begun = true;
  flow.after_mark = false;
}

void ChatParser::drop(size_t length) {
  at_ += length;
  unseen_ -= std::min(unseen_, length);
}

void ChatParser::pass(size_t length) {
  const size_t skipped = std::min(unseen_, length);
  if (continues_message_ && skip_blanks(rest().substr(0, skipped)) < skipped) {
    flow().begun = true;
    flow().after_mark = false;
  }
  size_t at = at_ + skipped;
  const size_t end = at_ + length;
  for (const Range& one : controls_) {
    if (one.end <= at || one.begin >= end) continue;
    if (one.begin > at) write(flow(), std::string_view(held_).substr(at, one.begin - at));
    at = std::min(one.end, end);
  }
  if (end > at) write(flow(), std::string_view(held_).substr(at, end - at));
  drop(length);
}

void ChatParser::mark() {
  for (Flow* flow : {&content_, &thoughts_}) {
    flow->blanks.clear();
    flow->after_mark = true;
  }
}

// Text up to the next thing that is a mark; false: more text is wanted.
bool ChatParser::step_text(bool over) {
  for (;;) {
    const std::string_view text = rest();
    size_t next = 0;
    while (next < text.size() && !first_[static_cast<unsigned char>(text[next])]) ++next;
    if (next > 0) pass(next);
    if (rest().empty()) return false;
    const Found found = look(over);
    if (found.match == Match::kMore) return false;
    if (found.match == Match::kYes) {
      act(found);
      return true;
    }
    pass(character_size(rest()));
  }
}

ChatParser::Found ChatParser::look(bool over) {
  // However much more is there already, so that a stream and a whole answer see the same.
  const std::string_view text = rest().substr(0, kMaxHeldBytes);
  over |= rest().size() > kMaxHeldBytes;
  bool may_come = false;
  if (calls_active_ && (!in_thoughts() || format_->calls->ends_thinking)) {
    Found call{.what = Found::What::kCall};
    call.match = look_for_call(text, over, call.length);
    if (call.match == Match::kYes) return call;
    may_come = call.match == Match::kMore;
  }
  std::vector<Found> found;
  look_for_marks(text, over, found);
  Found best;
  for (const Found& one : found) {
    may_come |= one.match == Match::kMore;
    if (one.match == Match::kYes && (best.match == Match::kNo || one.length > best.length)) best = one;
  }
  if (may_come) best.match = Match::kMore;
  return best;
}

Match ChatParser::look_for_call(std::string_view text, bool over, size_t& length) {
  const CallSyntax& calls = *format_->calls;
  const bool bare = !in_thoughts() && !content_.begun;
  if (calls.begin.empty()) return reader_.begin(text, bare, over, length, parts_);
  bool may_come = false;
  for (const std::string& begin : calls.begin) {
    Match match = match_literal(begin, text, over);
    if (match == Match::kYes) {
      const size_t at = skip_blanks(text, begin.size());
      match = at == text.size() && !over ? Match::kMore : reader_.begin(text.substr(at), true, over, length, parts_);
      length += at;
    }
    if (match == Match::kYes) return match;
    may_come |= match == Match::kMore;
  }
  return may_come ? Match::kMore : Match::kNo;
}

void ChatParser::look_for_marks(std::string_view text, bool over, std::vector<Found>& found) const {
  const auto literal = [&](std::string_view mark, Found::What what, size_t pair) {
    found.push_back({.match = match_literal(mark, text, over), .what = what, .length = mark.size(), .marks = pair});
  };
  if (in_thoughts()) {
    const ThinkingMarks& marks = format_->thinking[pair_];
    literal(marks.close, Found::What::kClose, pair_);
    if (thoughts_.after_mark) literal(marks.open, Found::What::kDrop, pair_);  // opened by the prompt already
    return;
  }
  for (size_t i = 0; i < format_->thinking.size(); ++i) {
    const ThinkingMarks& marks = format_->thinking[i];
    if (marks.anywhere || !content_.begun) literal(marks.open, Found::What::kOpen, i);
    if (!has_closed_) literal(marks.close, Found::What::kClose, i);
  }
  for (const Pattern& one : format_->dropped) {
    Captures captures;
    Found drop{.what = Found::What::kDrop};
    drop.match = match_parts(one.head, text, over, captures, drop.length);
    found.push_back(drop);
  }
}

void ChatParser::act(const Found& found) {
  drop(found.length);
  mark();
  switch (found.what) {
    case Found::What::kCall:
      state_ = State::kCall;
      in_section_ = !format_->calls->begin.empty();
      break;
    case Found::What::kOpen:
      state_ = State::kThoughts;
      pair_ = found.marks;
      break;
    case Found::What::kClose:
      state_ = State::kText;
      has_closed_ = true;
      break;
    case Found::What::kDrop:
      break;
  }
}

bool ChatParser::step_call(bool over) {
  drop(reader_.read(rest(), over, parts_));
  if (!reader_.done()) return false;
  state_ = State::kBetween;
  mark();
  return true;
}

// Behind a call: another one, the end of all calls, or text.
bool ChatParser::step_between(bool over) {
  const CallSyntax& calls = *format_->calls;
  const size_t at = skip_blanks(rest());
  const std::string_view text = rest().substr(at, kMaxHeldBytes);
  if (text.empty()) return false;
  const bool none_comes = over || rest().size() - at > kMaxHeldBytes;
  bool may_come = false;
  for (const std::string& end : calls.end) {
    const Match match = in_section_ ? match_literal(end, text, none_comes) : Match::kNo;
    may_come |= match == Match::kMore;
    if (match != Match::kYes) continue;
    drop(at + end.size());
    state_ = State::kText;
    return true;
  }
  size_t before = 0;
  if (!calls.between.empty() && text.starts_with(calls.between)) before = skip_blanks(text, calls.between.size());
  size_t length = 0;
  const Match match = reader_.begin(text.substr(before), true, none_comes, length, parts_);
  if (match == Match::kYes) {
    drop(at + before + length);
    state_ = State::kCall;
    return true;
  }
  if (match == Match::kMore || may_come) return false;
  state_ = State::kText;
  return true;
}

}  // namespace firstlight::text
