// SPDX-License-Identifier: Apache-2.0
#include "text/chat/chat_format.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/json.h"
#include "base/toml.h"
#include "text/tokenizer.h"

namespace firstlight::text {
namespace {

// Reads the members of a table; finish() names those nobody asked for.
class Table {
 public:
  Table(const Json& table, std::string name) : table_(table), name_(std::move(name)) {}

  const Json* find(const std::string& key) {
    known_.insert(key);
    const auto found = table_.find(key);
    return found == table_.end() ? nullptr : &*found;
  }
  Status string(const std::string& key, std::string& out) {
    const Json* value = find(key);
    if (value == nullptr) return ok_status();
    if (!value->is_string()) return wrong(key, "a string");
    out = value->get<std::string>();
    return ok_status();
  }
  // A string or a list of strings.
  Status strings(const std::string& key, std::vector<std::string>& out) {
    const Json* value = find(key);
    if (value == nullptr) return ok_status();
    const Json list = value->is_array() ? *value : Json::array({*value});
    out.clear();
    for (const Json& one : list) {
      if (!one.is_string() || one.get_ref<const std::string&>().empty())
        return wrong(key, "strings that are not empty");
      out.push_back(one.get<std::string>());
    }
    return ok_status();
  }
  Status patterns(const std::string& key, std::vector<Pattern>& out) {
    std::vector<std::string> sources;
    FL_TRY(strings(key, sources));
    for (const std::string& source : sources)
      out.push_back(FL_TRY(Pattern::parse(source).with_context(name_ + "." + key)));
    return ok_status();
  }
  Status boolean(const std::string& key, bool& out) {
    const Json* value = find(key);
    if (value == nullptr) return ok_status();
    if (!value->is_boolean()) return wrong(key, "true or false");
    out = value->get<bool>();
    return ok_status();
  }
  Result<Table> table(const std::string& key) {
    static const Json kNone = Json::object();
    const Json* value = find(key);
    if (value != nullptr && !value->is_object()) return wrong(key, "a table");
    return Table(value == nullptr ? kNone : *value, key);
  }
  Status finish() const {
    for (const auto& [key, value] : table_.items()) {
      if (known_.count(key) == 0) return invalid_data("unknown key '" + key + "' in " + name_);
    }
    return ok_status();
  }
  Status wrong(const std::string& key, const std::string& wanted) const {
    return invalid_data("'" + key + "' in " + name_ + ": " + wanted + " wanted");
  }

 private:
  const Json& table_;
  std::string name_;
  std::set<std::string> known_;
};

Status check_calls(const CallSyntax& calls) {
  if (calls.calls.empty()) return invalid_data("calls.call: missing");
  if (calls.begin.empty() != calls.end.empty()) return invalid_data("calls.begin and calls.end: both or neither");
  bool wants_parameter = false, wants_quote = false;
  for (const Pattern& call : calls.calls) {
    if (!call.has_body || call.body == Hole::kValue) {
      return invalid_data("call '" + call.source + "': one of {call}, {calls}, {python}, {arguments}, {loose}, " +
                          "{parameters} wanted");
    }
    const bool names_itself = call.body == Hole::kCall || call.body == Hole::kCalls || call.body == Hole::kPython;
    const bool has_name = std::any_of(call.head.begin(), call.head.end(), [](const PatternPart& part) {
      return part.kind == PatternPart::Kind::kHole && part.hole == Hole::kName;
    });
    if (has_name == names_itself) return invalid_data("call '" + call.source + "': {name} wanted before its arguments");
    if (call.opener().empty() && !names_itself) return invalid_data("call '" + call.source + "': text wanted first");
    wants_parameter |= call.body == Hole::kParameters;
    wants_quote |= call.body == Hole::kLoose;
  }
  if (wants_parameter != calls.parameter.has_value()) return invalid_data("calls.parameter: where {parameters} is");
  if (wants_quote == calls.quote.empty()) return invalid_data("calls.quote: where {loose} is");
  if (!calls.parameter) return ok_status();
  const Pattern& one = *calls.parameter;
  if (one.opener().empty()) return invalid_data("calls.parameter '" + one.source + "': text wanted first");
  if (one.body != Hole::kValue || !one.has_body || one.tail.empty() ||
      one.tail.back().kind != PatternPart::Kind::kLiteral) {
    return invalid_data("calls.parameter: {key}, {value} and text behind it wanted");
  }
  return ok_status();
}

Status read_calls(Table calls, CallSyntax& out) {
  out.name_keys = {"name"};
  out.argument_keys = {"arguments", "parameters"};
  out.id = "call_{random}";
  FL_TRY(calls.strings("begin", out.begin));
  FL_TRY(calls.strings("end", out.end));
  FL_TRY(calls.patterns("call", out.calls));
  std::vector<Pattern> parameter;
  FL_TRY(calls.patterns("parameter", parameter));
  if (parameter.size() > 1) return calls.wrong("parameter", "one pattern");
  if (!parameter.empty()) out.parameter = std::move(parameter.front());
  FL_TRY(calls.string("between", out.between));
  FL_TRY(calls.strings("name_keys", out.name_keys));
  FL_TRY(calls.strings("argument_keys", out.argument_keys));
  FL_TRY(calls.boolean("keyed", out.keyed));
  FL_TRY(calls.string("quote", out.quote));
  FL_TRY(calls.string("id", out.id));
  FL_TRY(calls.boolean("ends_thinking", out.ends_thinking));
  FL_TRY(calls.finish());
  return check_calls(out);
}

Status read_thinking(const Json& list, ChatFormat& out) {
  if (!list.is_array()) return invalid_data("thinking: [[thinking]] wanted");
  for (const Json& one : list) {
    if (!one.is_object()) return invalid_data("thinking: [[thinking]] wanted");
    Table table(one, "thinking");
    ThinkingMarks marks;
    FL_TRY(table.string("open", marks.open));
    FL_TRY(table.string("close", marks.close));
    FL_TRY(table.boolean("anywhere", marks.anywhere));
    FL_TRY(table.finish());
    if (marks.open.empty() || marks.close.empty()) return invalid_data("thinking: open and close wanted");
    out.thinking.push_back(std::move(marks));
  }
  return ok_status();
}

Status read_clues(const Json& clues, ChatFormatFile& out) {
  const Json list = clues.is_array() ? clues : Json::array({clues});
  for (const Json& one : list) {
    if (!one.is_object()) return invalid_data("recognise: a table wanted");
    Table table(one, "recognise");
    ChatFormatFile::Clue clue;
    FL_TRY(table.strings("template", clue.template_marks));
    FL_TRY(table.strings("tokens", clue.token_marks));
    FL_TRY(table.finish());
    if (clue.template_marks.empty() && clue.token_marks.empty()) return table.wrong("template", "or 'tokens'");
    out.clues.push_back(std::move(clue));
  }
  return ok_status();
}

Result<ChatFormatFile> read_file(const Json& document, const std::string& name) {
  ChatFormatFile out;
  out.format.name = name;
  Table file(document, "the file");
  if (const Json* clues = file.find("recognise")) FL_TRY(read_clues(*clues, out));
  if (const Json* thinking = file.find("thinking")) FL_TRY(read_thinking(*thinking, out.format));
  if (file.find("calls") != nullptr) {
    out.format.calls.emplace();
    FL_TRY(read_calls(FL_TRY(file.table("calls")), *out.format.calls));
  }
  Table answer = FL_TRY(file.table("answer"));
  FL_TRY(answer.strings("prompt_end", out.format.prompt_end));
  FL_TRY(answer.string("text_begin", out.format.text_begin));
  FL_TRY(answer.string("text_end", out.format.text_end));
  FL_TRY(answer.string("before_calls", out.format.before_calls));
  FL_TRY(answer.string("after_thinking", out.format.after_thinking));
  FL_TRY(answer.patterns("dropped", out.format.dropped));
  for (const Pattern& one : out.format.dropped) {
    if (one.has_body || one.opener().empty()) return answer.wrong("dropped", "text, perhaps with {any} in it,");
  }
  FL_TRY(answer.finish());
  Table effort = FL_TRY(file.table("effort"));
  FL_TRY(effort.strings("levels", out.format.effort_levels));
  FL_TRY(effort.strings("switches", out.format.effort_switches));
  FL_TRY(effort.finish());
  FL_TRY(file.finish());
  if (out.format.calls && out.clues.empty()) return invalid_data("recognise: wanted where there are calls");
  return out;
}

bool in_template(const ChatFormatClues& clues, const std::string& mark) {
  return clues.template_text.find(mark) != std::string_view::npos;
}

bool in_tokens(const ChatFormatClues& clues, const std::string& mark) {
  return clues.tokenizer != nullptr && clues.tokenizer->token_to_id(mark).has_value();
}

// How many marks of a clue are there, of the clue that has most; 0 where each lacks one (or there is none).
size_t num_marks(const ChatFormatFile& file, const ChatFormatClues& clues) {
  size_t most = 0;
  for (const ChatFormatFile::Clue& clue : file.clues) {
    const bool all = std::all_of(clue.template_marks.begin(), clue.template_marks.end(),
                                 [&](const std::string& mark) { return in_template(clues, mark); }) &&
                     std::all_of(clue.token_marks.begin(), clue.token_marks.end(),
                                 [&](const std::string& mark) { return in_tokens(clues, mark); });
    if (all) most = std::max(most, clue.template_marks.size() + clue.token_marks.size());
  }
  return most;
}

void add_thinking(ChatFormat& out, const std::vector<ChatFormatFile>& files, const ChatFormatClues& clues) {
  for (const ChatFormatFile& file : files) {
    if (file.format.calls || !out.thinking.empty()) continue;
    if (!file.clues.empty() && num_marks(file, clues) == 0) continue;
    for (const ThinkingMarks& marks : file.format.thinking) {
      const bool there = in_template(clues, marks.open) || in_template(clues, marks.close) ||
                         (in_tokens(clues, marks.open) && in_tokens(clues, marks.close));
      if (there) out.thinking.push_back(marks);
    }
    if (out.thinking.empty()) continue;
    out.name += (out.name.empty() ? "" : "+") + file.format.name;
    out.dropped.insert(out.dropped.end(), file.format.dropped.begin(), file.format.dropped.end());
  }
}

void add_effort(ChatFormat& out, const std::vector<ChatFormatFile>& files) {
  out.effort_levels.clear();
  out.effort_switches.clear();
  for (const ChatFormatFile& file : files) {
    const auto& [levels, switches] = std::tie(file.format.effort_levels, file.format.effort_switches);
    out.effort_levels.insert(out.effort_levels.end(), levels.begin(), levels.end());
    out.effort_switches.insert(out.effort_switches.end(), switches.begin(), switches.end());
  }
}

ChatFormat complete(ChatFormat out, const std::vector<ChatFormatFile>& files, const ChatFormatClues& clues) {
  add_thinking(out, files, clues);
  add_effort(out, files);
  return out;
}

}  // namespace

std::string_view ChatFormat::open_end(std::string_view prompt) const {
  const std::string_view trimmed = prompt.substr(0, prompt.find_last_not_of(" \t\r\n") + 1);
  std::string_view found;
  const auto consider = [&](std::string_view mark) {
    if (trimmed.ends_with(mark) && mark.size() > found.size()) found = mark;
  };
  for (const ThinkingMarks& marks : thinking) consider(marks.open);
  for (const std::string& mark : prompt_end) consider(mark);
  return found;
}

std::string_view ChatFormat::open_thought(std::string_view prompt) const {
  const std::string_view open = open_end(prompt);
  for (const ThinkingMarks& marks : thinking) {
    if (!open.empty() && marks.open == open) return marks.close;
  }
  return "";
}

std::vector<int32_t> ChatFormat::special_marks(const Tokenizer& tokenizer, bool with_calls) const {
  std::vector<std::string_view> texts;
  const auto add_parts = [&](const std::vector<PatternPart>& parts) {
    for (const PatternPart& part : parts) {
      if (part.kind == PatternPart::Kind::kLiteral) texts.push_back(part.text);
    }
  };
  const auto add_pattern = [&](const Pattern& pattern) {
    add_parts(pattern.head);
    add_parts(pattern.tail);
  };
  for (const ThinkingMarks& marks : thinking) texts.insert(texts.end(), {marks.open, marks.close});
  for (const Pattern& one : dropped) add_pattern(one);
  if (with_calls && calls) {
    texts.insert(texts.end(), calls->begin.begin(), calls->begin.end());
    texts.insert(texts.end(), calls->end.begin(), calls->end.end());
    for (const Pattern& one : calls->calls) add_pattern(one);
    if (calls->parameter) add_pattern(*calls->parameter);
    if (!calls->quote.empty()) texts.push_back(calls->quote);
  }
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
    const std::string_view token = tokenizer.token_text(id);
    const bool is_mark = std::any_of(texts.begin(), texts.end(), [&](std::string_view text) {
      return !token.empty() && text.find(token) != std::string_view::npos;
    });
    if (is_mark) ids.push_back(id);
  }
  return ids;
}

Result<ChatFormatFile> read_chat_format(std::string_view toml, const std::string& name) {
  const Json document = FL_TRY(parse_toml(toml).with_context("chat format '" + name + "'"));
  return read_file(document, name).with_context("chat format '" + name + "'");
}

Result<std::vector<ChatFormatFile>> shipped_chat_formats() {
  std::vector<ChatFormatFile> out;
  for (const EmbeddedFile& file : embedded_files()) {
    out.push_back(FL_TRY(read_chat_format(file.text, std::string(file.path.substr(0, file.path.rfind('.'))))));
  }
  return out;
}

ChatFormat recognise_chat_format(const std::vector<ChatFormatFile>& files, const ChatFormatClues& clues) {
  const ChatFormatFile* best = nullptr;
  size_t most = 0;
  for (const ChatFormatFile& file : files) {
    const size_t marks = file.format.calls ? num_marks(file, clues) : 0;
    if (marks <= most) continue;
    most = marks;
    best = &file;
  }
  return complete(best == nullptr ? ChatFormat() : best->format, files, clues);
}

ChatFormat forced_chat_format(const ChatFormatFile& file, const std::vector<ChatFormatFile>& files,
                              const ChatFormatClues& clues) {
  return complete(file.format, files, clues);
}

}  // namespace firstlight::text
