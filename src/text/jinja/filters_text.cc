// SPDX-License-Identifier: Apache-2.0
// Filters on text.
#include <utf8proc.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {
namespace {

// soft_str: strings as they are (markup stays markup), everything else as str().
Text soft(const Value& value) { return value.is_string() ? value.as_text() : to_text(value); }

Result<Value> f_upper(Runtime& r, const Value& value, const Bound&) { return r.text(to_upper(soft(value))); }
Result<Value> f_lower(Runtime& r, const Value& value, const Bound&) { return r.text(to_lower(soft(value))); }
Result<Value> f_capitalize(Runtime& r, const Value& value, const Bound&) { return r.text(to_capitalized(soft(value))); }
Result<Value> f_string(Runtime& r, const Value& value, const Bound&) {
  FL_TRY(r.charge(1 + value_weight(value) / 8));
  return r.text(soft(value));
}

bool begins_word(char32_t c) { return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c); }

// Not str.title: only what follows white space or an opening bracket or a hyphen starts a word.
Result<Value> f_title(Runtime& runtime, const Value& value, const Bound&) {
  const Text text = soft(value);
  Text out;
  size_t start = 0;
  const auto flush = [&](size_t end) {
    if (start == end) return;
    const size_t first = std::min<size_t>(end, start + utf8_length(static_cast<unsigned char>(text.bytes()[start])));
    out.append(to_upper(text.slice(start, first)));
    out.append(to_lower(text.slice(first, end)));
    start = end;
  };
  for_each_code_point(text.view(), [&](char32_t c, size_t pos, size_t length) {
    const bool was_break = pos > start ? begins_word(decode_utf8(text.view(), start).value) : begins_word(c);
    if (pos > start && was_break != begins_word(c)) flush(pos);
    static_cast<void>(length);
    return true;
  });
  flush(text.size());
  return runtime.text(std::move(out));
}

Result<Value> f_trim(Runtime& runtime, const Value& value, const Bound& args) {
  const std::optional<Text> chars = FL_TRY(args.text(0));
  return runtime.text(strip(soft(value), chars ? std::optional(chars->view()) : std::nullopt, true, true));
}

Result<Value> f_replace(Runtime& runtime, const Value& value, const Bound& args) {
  const Text text = to_text(value);
  const Text old = to_text(args[0]);
  const Text with = to_text(args[1]);
  FL_TRY(check_growth(runtime, text, old, with));
  const int64_t count = args.is_set(2) ? FL_TRY(args.integer(2, -1)) : -1;
  return runtime.text(replace_all(text, old.view(), with, count));
}

Result<Value> f_center(Runtime& runtime, const Value& value, const Bound& args) {
  CallArgs call;
  call.positional.push_back(args.value_or(0, Value::integer(80)));
  return call_str_method(runtime, soft(value), "center", std::move(call));
}

Result<Text> want_text(const Value& value, std::string_view who) {
  if (value.is_string()) return value.as_text();
  if (value.is_undefined()) return invalid_data(value.undefined_message());
  return invalid_data(std::string(who) + ": a string is wanted, not '" + type_name(value) + "'");
}

Result<Value> f_indent(Runtime& runtime, const Value& value, const Bound& args) {
  Text text = FL_TRY(want_text(value, "indent"));
  Text indention(std::string(4, ' '), true);
  if (args.has(0) && args[0].is_string()) {
    indention = args[0].as_text();
  } else if (args.has(0)) {
    const int64_t width = FL_TRY(args.integer(0, 4));
    if (width > 10'000) return unsupported("indent width over 10000");
    indention = Text(std::string(static_cast<size_t>(std::max<int64_t>(0, width)), ' '), true);
  }
  const bool first = args.flag(1, false);
  const bool blank = args.flag(2, false);
  text.append("\n", true);  // so that a trailing line break counts as a line
  const std::vector<Text> lines = split_lines(text, false);
  FL_TRY(runtime.charge(lines.size() * indention.size() / 8));
  if (lines.size() * indention.size() > runtime.limits().string_bytes) return unsupported("indent result too long");
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", true);
    if (i == 0 ? first : (blank || !lines[i].empty())) out.append(indention);
    out.append(lines[i]);
  }
  out.set_markup(text.is_markup());
  return runtime.text(std::move(out));
}

Result<Value> f_truncate(Runtime& runtime, const Value& value, const Bound& args) {
  const int64_t length = FL_TRY(args.integer(0, 255));
  const Text end = FL_TRY(args.text(2)).value_or(Text("...", true));
  const int64_t leeway = args.is_set(3) ? FL_TRY(args.integer(3, 5)) : 5;
  const auto end_length = static_cast<int64_t>(count_code_points(end.view()));
  if (length < end_length)
    return invalid_data("expected length >= " + std::to_string(end_length) + ", got " + std::to_string(length));
  if (leeway < 0) return invalid_data("expected leeway >= 0, got " + std::to_string(leeway));
  const auto have = static_cast<int64_t>(FL_TRY(length_of(value)));
  if (have <= length || have - length <= leeway) return value;
  const Text text = FL_TRY(want_text(value, "truncate"));
  Text out = text.slice(0, code_point_offset(text.view(), static_cast<size_t>(length - end_length)));
  if (!args.flag(1, false)) out = split_right(out, " ", 1).front();
  out.append(end);
  return runtime.text(std::move(out));
}

Result<Value> f_wordcount(Runtime&, const Value& value, const Bound&) {
  int64_t count = 0;
  bool inside = false;
  const Text text = soft(value);
  for_each_code_point(text.view(), [&](char32_t c, size_t, size_t) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    const bool word =
        c == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) || is_numeric(c);
    if (word && !inside) ++count;
    inside = word;
    return true;
  });
  return Value::integer(count);
}

Result<Value> f_format(Runtime& runtime, const Value& value, CallArgs args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return invalid_data("can't handle positional and keyword arguments at the same time");
  }
  if (args.named.empty()) return format_percent(runtime, soft(value), FL_TRY(make_tuple(std::move(args.positional))));
  Dict named;
  for (auto& [name, argument] : args.named) named.set(Value::string(name, true), std::move(argument));
  return format_percent(runtime, soft(value), FL_TRY(make_dict(std::move(named))));
}

Result<Value> f_safe(Runtime&, const Value& value, const Bound&) {
  Text out = to_text(value);
  out.set_markup(true);
  return Value(std::move(out));
}

Result<Value> f_escape(Runtime& runtime, const Value& value, const Bound&) {
  if (value.is_string() && value.as_text().is_markup()) return value;
  return runtime.text(escape_markup(to_text(value)));
}

Result<Value> f_forceescape(Runtime& runtime, const Value& value, const Bound&) {
  return runtime.text(escape_markup(to_text(value)));
}

constexpr FilterRow kRows[] = {
    {"upper", "", 0, f_upper},
    {"lower", "", 0, f_lower},
    {"capitalize", "", 0, f_capitalize},
    {"title", "", 0, f_title},
    {"string", "", 0, f_string},
    {"trim", "chars", 0, f_trim},
    {"replace", "old new count", 2, f_replace},
    {"center", "width", 0, f_center},
    {"indent", "width first blank", 0, f_indent},
    {"truncate", "length killwords end leeway", 0, f_truncate},
    {"wordcount", "", 0, f_wordcount},
    {"format", "*", 0, nullptr, f_format},
    {"safe", "", 0, f_safe},
    {"escape", "", 0, f_escape},
    {"e", "", 0, f_escape},
    {"forceescape", "", 0, f_forceescape},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kRows; }

}  // namespace firstlight::text::jinja
