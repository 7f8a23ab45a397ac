// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_reader.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/chat/loose_value.h"

namespace firstlight::text {
namespace {

using Kind = ChatPart::Kind;

Match wait(bool over) { return over ? Match::kNo : Match::kMore; }

}  // namespace

Match CallReader::begin(std::string_view text, bool bare, bool over, size_t& length, ChatParts& out) {
  bool may_come = false;
  for (const Pattern& pattern : syntax_.calls) {
    if (pattern.opener().empty() && !bare) continue;
    Captures captures;
    size_t at = 0;
    Match match = match_parts(pattern.head, text, over, captures, at);
    if (match == Match::kYes) match = begin_body(pattern, text, at, over, captures, length, out);
    if (match == Match::kYes) {
      pattern_ = &pattern;
      return match;
    }
    may_come |= match == Match::kMore;
  }
  return may_come ? Match::kMore : Match::kNo;
}

Match CallReader::begin_body(const Pattern& pattern, std::string_view text, size_t head, bool over, Captures& captures,
                             size_t& length, ChatParts& out) {
  const std::string& name = captures[static_cast<size_t>(Hole::kName)];
  const bool names_itself = name.empty();
  if (!names_itself && !tools_.knows(name)) return Match::kNo;
  size_t at = skip_blanks(text, head);
  if (at == text.size() && pattern.body != Hole::kParameters) return wait(over);
  in_list_ = false;
  levels_ = 0;
  // White space that is there already goes with the head only where more than that had to be seen.
  length = pattern.body == Hole::kParameters ? head : at;
  if (names_itself) {
    in_list_ = text[at] == '[';
    if (in_list_) at = skip_blanks(text, at + 1);
    if (at == text.size()) return wait(over);
    const bool python = pattern.body == Hole::kPython;
    if (python && !in_list_ && pattern.opener().empty() && syntax_.begin.empty()) return Match::kNo;
    const Match match =
        python ? begin_python(text.substr(at), over, length, out) : begin_object(text.substr(at), over, length, out);
    length += at;
    return match;
  }
  switch (pattern.body) {
    case Hole::kParameters:
      parameters_.emplace(*syntax_.parameter, tools_, name);
      state_ = State::kParameters;
      break;
    case Hole::kLoose:
      if (text[at] != '{') return Match::kNo;
      scanner_ = ValueScanner(ValueScanner::Style::kQuoted, syntax_.quote);
      state_ = State::kLoose;
      break;
    default:
      if (text[at] != '{' && text[at] != '"') return Match::kNo;
      as_string_ = text[at] == '"';
      scanner_ = ValueScanner();
      state_ = State::kJson;
      break;
  }
  out.begin_call(name, captures);
  return Match::kYes;
}

Match CallReader::begin_object(std::string_view text, bool over, size_t& length, ChatParts& out) {
  CallObject object;
  const Match match = match_call_object(syntax_, text, over, object);
  if (match != Match::kYes) return match;
  if (!tools_.knows(object.name)) return Match::kNo;
  const bool at_end = object.length == text.size();
  if (at_end && !object.is_whole) return wait(over);
  length = object.length;
  out.begin_call(object.name, {});
  if (object.is_whole) {
    out.add(Kind::kArguments, object.arguments);
    end_call(out, State::kNext);
    return match;
  }
  levels_ = object.levels;
  as_string_ = text[length] == '"';
  scanner_ = ValueScanner();
  state_ = State::kJson;
  return match;
}

Match CallReader::begin_python(std::string_view text, bool over, size_t& length, ChatParts& out) {
  static const Pattern kHead = Pattern::parse("{name}(").value();
  Captures captures;
  const Match match = match_parts(kHead.head, text, over, captures, length);
  if (match != Match::kYes) return match;
  const std::string& name = captures[static_cast<size_t>(Hole::kName)];
  if (!tools_.knows(name)) return Match::kNo;
  out.begin_call(name, {});
  scanner_ = ValueScanner(ValueScanner::Style::kPython);
  scanner_.begin_inside(1);
  state_ = State::kPython;
  return match;
}

void CallReader::end_call(ChatParts& out, State next) {
  out.end_call();
  state_ = one_only_ ? State::kDone : next;
}

size_t CallReader::read(std::string_view text, bool over, ChatParts& out) {
  size_t at = 0;
  for (;;) {
    const State before = state_;
    const size_t taken = step(text.substr(at), over, out);
    at += taken;
    if (done() || (taken == 0 && state_ == before)) return at;
  }
}

size_t CallReader::step(std::string_view text, bool over, ChatParts& out) {
  switch (state_) {
    case State::kDone:
      return 0;
    case State::kJson:
      return read_json(text, over, out);
    case State::kMembers:
      return read_members(text, over, out);
    case State::kNext:
      return read_next(text, over, out);
    case State::kLoose:
    case State::kPython:
      return read_collected(text, over, out);
    case State::kParameters:
      return read_parameters(text, over, out);
    case State::kTail:
      return read_tail(text, over);
  }
  return 0;
}

size_t CallReader::read_json(std::string_view text, bool over, ChatParts& out) {
  const size_t size = scanner_.take(text, over);
  if (as_string_) {
    collected_ += text.substr(0, size);
    if (scanner_.done()) out.add(Kind::kArguments, decode_arguments(std::exchange(collected_, "")));
  } else {
    out.add(Kind::kArguments, text.substr(0, size));
  }
  if (scanner_.failed()) state_ = State::kDone;
  if (!scanner_.done()) return size;
  if (levels_ == 0) {
    end_call(out, State::kTail);
  } else {
    state_ = State::kMembers;
  }
  return size;
}

// Behind the arguments in a call's object: further members have no use, but are no text either.
size_t CallReader::read_members(std::string_view text, bool over, ChatParts& out) {
  const size_t at = skip_blanks(text);
  if (at == text.size()) return 0;
  if (text[at] == '}') {
    if (--levels_ == 0) end_call(out, State::kNext);
    return at + 1;
  }
  size_t length = 0;
  const Match match = match_member(text.substr(at), over, length);
  if (match == Match::kYes) return at + length;
  if (match == Match::kNo) end_call(out, State::kTail);  // a brace too few is the commonest slip: a call all the same
  return 0;
}

// Behind a call that may be one of a list.
size_t CallReader::read_next(std::string_view text, bool over, ChatParts& out) {
  if (!in_list_) {
    state_ = State::kTail;
    return 0;
  }
  const size_t at = skip_blanks(text);
  if (at == text.size()) return 0;
  if (text[at] == ']') {
    state_ = State::kTail;
    return at + 1;
  }
  const size_t next = skip_blanks(text, at + 1);
  Match match = text[at] == ',' ? Match::kMore : Match::kNo;
  size_t length = 0;
  if (match == Match::kMore && next < text.size()) {
    match = pattern_->body == Hole::kPython ? begin_python(text.substr(next), over, length, out)
                                            : begin_object(text.substr(next), over, length, out);
  }
  if (match == Match::kNo) state_ = State::kTail;
  return match == Match::kYes ? next + length : 0;
}

size_t CallReader::read_collected(std::string_view text, bool over, ChatParts& out) {
  const size_t size = scanner_.take(text, over);
  collected_ += text.substr(0, size);
  if (!scanner_.done()) return size;
  const std::string written = std::exchange(collected_, "");
  const bool python = state_ == State::kPython;
  const auto value = python ? read_keyword_arguments(std::string_view(written).substr(0, written.size() - 1))
                            : read_loose_value(written, syntax_.quote);
  out.add(Kind::kArguments, value ? dump_json(*value) : written);
  end_call(out, python ? State::kNext : State::kTail);
  return size;
}

size_t CallReader::read_parameters(std::string_view text, bool over, ChatParts& out) {
  if (parameters_->in_value()) return parameters_->read(text, out);
  const size_t at = skip_blanks(text);
  if (at == text.size()) return 0;
  size_t length = 0;
  const Match match = parameters_->begin(text.substr(at), over, length, out);
  if (match == Match::kYes) return at + length;
  if (match == Match::kMore) return 0;
  // Not a parameter: the list is over, if it ends as it should or not.
  Captures captures;
  if (match_parts(pattern_->tail, text.substr(at), over, captures, length) == Match::kMore) return 0;
  parameters_->end(out);
  end_call(out, State::kTail);
  return 0;
}

size_t CallReader::read_tail(std::string_view text, bool over) {
  Captures captures;
  const size_t at = skip_blanks(text);
  size_t length = 0;
  const Match match = match_parts(pattern_->tail, text.substr(at), false, captures, length);
  if (match == Match::kMore && !over) return 0;
  state_ = State::kDone;
  if (match == Match::kMore) return text.size();  // cut short, and no text
  return match == Match::kYes && !pattern_->tail.empty() ? at + length : 0;
}

bool CallReader::has_use_for(std::string_view control) const {
  switch (state_) {
    case State::kJson:
    case State::kPython:
      return false;
    case State::kLoose:
      return syntax_.quote.find(control) != std::string::npos;
    case State::kParameters:
      return !parameters_->in_value() || parameters_->may_close_with(control);
    default:
      return true;
  }
}

void CallReader::finish(std::string_view rest, bool complete, ChatParts& out) {
  const bool is_collected = state_ == State::kLoose || state_ == State::kPython;
  if (state_ == State::kParameters && complete) {
    if (!parameters_->in_value()) {
      parameters_->end(out);
      out.end_call();
    }
    parameters_->cut(rest, out);
  } else if (complete && (state_ == State::kJson || is_collected)) {
    out.add(Kind::kArguments, std::exchange(collected_, "") + std::string(rest));
  } else if (state_ == State::kJson && as_string_) {
    out.add(Kind::kArguments, decode_cut_arguments(collected_));
  } else if (is_collected) {
    out.add(Kind::kArguments,
            read_cut_members(collected_ + std::string(rest), syntax_.quote, state_ == State::kPython));
  } else if (state_ == State::kNext && pattern_->body != Hole::kPython && rest.find('{') != std::string_view::npos) {
    const std::string name = cut_name(rest.substr(rest.find('{')));
    if (!name.empty()) out.begin_call(name, {});
  }
  state_ = State::kDone;
}

// The name that the beginning of a call's object states, if it is one of the tools'.
std::string CallReader::cut_name(std::string_view object) const {
  CallObject call;
  if (match_call_object(syntax_, object, false, call) != Match::kMore || !tools_.knows(call.name)) return "";
  return call.name;
}

bool CallReader::may_be_call(Hole body, std::string_view text) const {
  std::string written;
  for (const char c : text) {
    if (!is_blank(c) && (c != '[' || !written.empty())) written += c;
  }
  const std::vector<std::string> names = tools_.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    if (body == Hole::kPython) return (name + "(").starts_with(written);
    const std::string quoted = dump_json(Json(name));
    if (syntax_.keyed) return ("{" + quoted + ":{").starts_with(written);
    const std::string member = dump_json(Json(syntax_.name_keys.front())) + ":" + quoted;
    return ("{" + member).starts_with(written) || ("{\"type\":\"function\"," + member).starts_with(written);
  });
}

bool CallReader::cut(std::string_view text, bool bare, bool marked, ChatParts& out) const {
  bool is_head = false;
  for (const Pattern& pattern : syntax_.calls) {
    const bool has_mark = marked || !pattern.opener().empty();
    if (pattern.opener().empty() && !bare) continue;
    Captures captures;
    size_t at = 0;
    const Match match = match_parts(pattern.head, text, false, captures, at);
    if (match == Match::kNo) continue;
    std::string name = captures[static_cast<size_t>(Hole::kName)];
    if (match == Match::kYes && name.empty() && pattern.body != Hole::kPython) {
      at = skip_blanks(text, at);
      if (text.substr(at).starts_with('[')) at = skip_blanks(text, at + 1);
      name = cut_name(text.substr(at));
    }
    if (tools_.knows(name)) {
      out.begin_call(name, captures);
      return true;
    }
    is_head |= has_mark || may_be_call(pattern.body, text);
  }
  return is_head;
}

}  // namespace firstlight::text
