// SPDX-License-Identifier: Apache-2.0
#include "text/chat/pattern.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace firstlight::text {
namespace {

using Kind = PatternPart::Kind;

// A name, key or id is short; a longer stretch is no call.
constexpr size_t kLongestShortHole = 256;

constexpr std::pair<std::string_view, Hole> kHoles[] = {
    {"name", Hole::kName},
    {"id", Hole::kId},
    {"index", Hole::kIndex},
    {"key", Hole::kKey},
    {"type", Hole::kType},
    {"string", Hole::kString},
    {"any", Hole::kAny},
    {"value", Hole::kValue},
    {"arguments", Hole::kArguments},
    {"loose", Hole::kLoose},
    {"call", Hole::kCall},
    {"calls", Hole::kCalls},
    {"parameters", Hole::kParameters},
    {"python", Hole::kPython},
};

bool is_body(Hole hole) { return hole >= Hole::kValue; }

std::optional<Hole> hole_named(std::string_view name) {
  for (const auto& [known, hole] : kHoles) {
    if (known == name) return hole;
  }
  return std::nullopt;
}

// The hole written at the beginning of `text`, "{name}", and its length; a brace that is none is text.
std::optional<std::pair<Hole, size_t>> hole_at(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  const size_t end = text.find('}');
  if (end == std::string_view::npos) return std::nullopt;
  const auto hole = hole_named(text.substr(1, end - 1));
  if (!hole) return std::nullopt;
  return std::pair(*hole, end + 1);
}

void add_char(std::vector<PatternPart>& parts, char c) {
  const Kind kind = is_blank(c) ? Kind::kSpace : Kind::kLiteral;
  if (parts.empty() || parts.back().kind != kind) parts.push_back({.kind = kind, .text = ""});
  parts.back().text += c;
}

std::string drop_space_behind(std::vector<PatternPart>& parts) {
  if (parts.empty() || parts.back().kind != Kind::kSpace) return "";
  std::string space = std::move(parts.back().text);
  parts.pop_back();
  return space;
}

std::string drop_space_before(std::vector<PatternPart>& parts) {
  if (parts.empty() || parts.front().kind != Kind::kSpace) return "";
  std::string space = std::move(parts.front().text);
  parts.erase(parts.begin());
  return space;
}

Status check(const Pattern& pattern) {
  if (pattern.head.empty() && !pattern.has_body) return invalid_data("an empty pattern");
  for (const auto* parts : {&pattern.head, &pattern.tail}) {
    for (size_t i = 0; i < parts->size(); ++i) {
      if ((*parts)[i].kind != Kind::kHole) continue;
      const bool last = i + 1 == parts->size() && (parts == &pattern.tail || !pattern.has_body);
      if (last) return invalid_data("pattern '" + pattern.source + "': text wanted behind its last hole");
    }
  }
  return ok_status();
}

bool ends_name(char c) { return is_blank(c) || std::string_view("<>{}[]()\"'`,;=").find(c) != std::string_view::npos; }

std::string_view next_literal(std::span<const PatternPart> rest) {
  for (const PatternPart& part : rest) {
    if (part.kind == Kind::kLiteral) return part.text;
    if (part.kind != Kind::kSpace) break;
  }
  return "";
}

// Where the hole at `at` ends: before the next literal, or, of a name, at a character no name has. npos: not yet.
size_t hole_end(std::string_view next, std::string_view text, size_t at, Hole hole) {
  if (hole != Hole::kName) return next.empty() ? at : text.find(next, at);
  for (size_t i = at; i < text.size(); ++i) {
    if (ends_name(text[i]) || (!next.empty() && text.substr(i).starts_with(next))) return i;
  }
  return std::string_view::npos;
}

Match match_hole(std::span<const PatternPart> rest, std::string_view text, Hole hole, Captures& captures, size_t& at) {
  const std::string_view next = next_literal(rest);
  const size_t end = hole_end(next, text, at, hole);
  const std::string_view taken = text.substr(at, end == std::string_view::npos ? end : end - at);
  // What has no end in sight may have a beginning of the next literal at its end.
  const size_t longest = kLongestShortHole + (end == std::string_view::npos ? next.size() : 0);
  if (taken.size() > longest || taken.find('\n') != std::string_view::npos) return Match::kNo;
  if (end == std::string_view::npos) return Match::kMore;
  if (hole != Hole::kAny && trim_blanks(taken).empty()) return Match::kNo;
  captures[static_cast<size_t>(hole)] = trim_blanks(taken);
  at = end;
  return Match::kYes;
}

}  // namespace

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

std::string_view trim_blanks(std::string_view text) {
  text.remove_prefix(skip_blanks(text));
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view Pattern::opener() const {
  if (head.empty() || head.front().kind != Kind::kLiteral) return "";
  return head.front().text;
}

Result<Pattern> Pattern::parse(std::string_view source) {
  Pattern out;
  out.source = source;
  std::vector<PatternPart>* parts = &out.head;
  for (size_t i = 0; i < source.size();) {
    const auto hole = hole_at(source.substr(i));
    if (!hole) {
      add_char(*parts, source[i++]);
      continue;
    }
    i += hole->second;
    if (!is_body(hole->first)) {
      parts->push_back({.kind = Kind::kHole, .text = "", .hole = hole->first});
      continue;
    }
    if (out.has_body) return invalid_data("pattern '" + out.source + "': a second body");
    out.has_body = true;
    out.body = hole->first;
    parts = &out.tail;
  }
  // Bodies but values skip white space around themselves; what stands around a whole call belongs to nobody.
  const bool is_value = out.has_body && out.body == Hole::kValue;
  if (out.has_body && !is_value) {
    out.before_body = drop_space_behind(out.head);
    out.after_body = drop_space_before(out.tail);
  }
  drop_space_before(out.head);
  drop_space_behind(out.tail);
  FL_TRY(check(out));
  return out;
}

Match match_literal(std::string_view literal, std::string_view text, bool over) {
  if (text.size() >= literal.size()) return text.starts_with(literal) ? Match::kYes : Match::kNo;
  return !over && literal.starts_with(text) ? Match::kMore : Match::kNo;
}

size_t open_end(std::string_view literal, std::string_view text) {
  if (literal.empty()) return 0;
  for (size_t length = std::min(literal.size() - 1, text.size()); length > 0; --length) {
    if (text.ends_with(literal.substr(0, length))) return length;
  }
  return 0;
}

Match match_parts(std::span<const PatternPart> parts, std::string_view text, bool over, Captures& captures,
                  size_t& length) {
  size_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const PatternPart& part = parts[i];
    Match match = Match::kYes;
    if (part.kind == Kind::kSpace) {
      at = skip_blanks(text, at);
    } else if (part.kind == Kind::kLiteral) {
      match = match_literal(part.text, text.substr(at), over);
      at += part.text.size();
    } else {
      match = match_hole(parts.subspan(i + 1), text, part.hole, captures, at);
    }
    if (match == Match::kMore && over) match = Match::kNo;
    if (match != Match::kYes) return match;
  }
  length = at;
  return Match::kYes;
}

}  // namespace firstlight::text
