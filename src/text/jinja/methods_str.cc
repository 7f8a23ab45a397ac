// SPDX-License-Identifier: Apache-2.0
// Methods of strings: one function per method, one table. Provenance is kept by all of them.
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {
namespace {

using Method = Result<Value> (*)(Runtime&, const Text& self, const Bound& args);

// What a markup string does to the strings it is combined with.
Text matched(const Text& self, const Text& other) {
  return self.is_markup() && !other.is_markup() ? escape_markup(other) : other;
}

Result<Value> list_of(std::vector<Text> parts) {
  std::vector<Value> items(std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  return make_list(std::move(items));
}

Result<Value> strip_with(Runtime& runtime, const Text& self, const Bound& args, bool left, bool right) {
  const std::optional<Text> chars = FL_TRY(args.text(0));
  return runtime.text(strip(self, chars ? std::optional(chars->view()) : std::nullopt, left, right));
}
Result<Value> m_strip(Runtime& r, const Text& self, const Bound& args) { return strip_with(r, self, args, true, true); }
Result<Value> m_lstrip(Runtime& r, const Text& self, const Bound& args) {
  return strip_with(r, self, args, true, false);
}
Result<Value> m_rstrip(Runtime& r, const Text& self, const Bound& args) {
  return strip_with(r, self, args, false, true);
}

Result<Value> split_with(const Text& self, const Bound& args,
                         std::vector<Text> (*how)(const Text&, std::optional<std::string_view>, int64_t)) {
  const std::optional<Text> separator = FL_TRY(args.text(0));
  if (separator && separator->empty()) return invalid_data("empty separator");
  return list_of(how(self, separator ? std::optional(separator->view()) : std::nullopt, FL_TRY(args.integer(1, -1))));
}
Result<Value> m_split(Runtime&, const Text& self, const Bound& args) { return split_with(self, args, split); }
Result<Value> m_rsplit(Runtime&, const Text& self, const Bound& args) { return split_with(self, args, split_right); }
Result<Value> m_splitlines(Runtime&, const Text& self, const Bound& args) {
  return list_of(split_lines(self, args.flag(0, false)));
}

Result<Value> partition(const Text& self, const Bound& args, bool from_right) {
  const Text separator = FL_TRY(args.text(0)).value_or(Text());
  if (separator.empty()) return invalid_data("empty separator");
  const size_t at = from_right ? self.view().rfind(separator.view()) : self.view().find(separator.view());
  if (at == std::string_view::npos)
    return from_right ? make_tuple({Text(), Text(), self}) : make_tuple({self, Text(), Text()});
  return make_tuple({self.slice(0, at), separator, self.slice(at + separator.size(), self.size())});
}
Result<Value> m_partition(Runtime&, const Text& self, const Bound& args) { return partition(self, args, false); }
Result<Value> m_rpartition(Runtime&, const Text& self, const Bound& args) { return partition(self, args, true); }

// The part [start, stop) of code points that find, count, startswith … look at, as byte offsets.
struct Window {
  size_t from = 0;
  size_t to = 0;
  bool is_empty_range = false;  // start past the end: not even the empty string is there
};

Result<Window> window(const Text& self, const Bound& args) {
  if (!args.is_set(1) && !args.is_set(2)) return Window{0, self.size(), false};
  const auto length = static_cast<int64_t>(count_code_points(self.view()));
  const auto clip = [&](int64_t at) { return at < 0 ? std::max<int64_t>(0, at + length) : at; };
  const int64_t start = clip(args.is_set(1) ? FL_TRY(args.integer(1, 0)) : 0);
  const int64_t stop = std::min(length, clip(args.is_set(2) ? FL_TRY(args.integer(2, length)) : length));
  if (start > length || start > stop) return Window{0, 0, true};
  return Window{code_point_offset(self.view(), static_cast<size_t>(start)),
                code_point_offset(self.view(), static_cast<size_t>(stop)), false};
}

Result<bool> matches_affix(const Text& self, const Bound& args, bool at_start) {
  const Window where = FL_TRY(window(self, args));
  const std::string_view part = self.view().substr(where.from, where.to - where.from);
  const auto matches = [&](const Value& affix) -> Result<bool> {
    if (!affix.is_string()) {
      return invalid_data(std::string(at_start ? "startswith" : "endswith") +
                          " first arg must be str or a tuple of str, not " + type_name(affix));
    }
    return !where.is_empty_range && (at_start ? part.starts_with(affix.as_view()) : part.ends_with(affix.as_view()));
  };
  const Value& affix = args[0];
  if (affix.kind() != Kind::kSequence || affix.as_sequence()->kind != SequenceKind::kTuple) return matches(affix);
  for (const Value& item : affix.as_sequence()->items) {
    if (FL_TRY(matches(item))) return true;
  }
  return false;
}
Result<Value> m_startswith(Runtime&, const Text& self, const Bound& args) {
  return Value(FL_TRY(matches_affix(self, args, true)));
}
Result<Value> m_endswith(Runtime&, const Text& self, const Bound& args) {
  return Value(FL_TRY(matches_affix(self, args, false)));
}

// Position in code points, -1 if it is not there.
Result<int64_t> position(const Text& self, const Bound& args, bool from_right) {
  const Text needle = FL_TRY(args.text(0)).value_or(Text());
  const Window where = FL_TRY(window(self, args));
  if (where.is_empty_range) return int64_t{-1};
  const std::string_view part = self.view().substr(where.from, where.to - where.from);
  const size_t at = from_right ? part.rfind(needle.view()) : part.find(needle.view());
  if (at == std::string_view::npos) return int64_t{-1};
  return static_cast<int64_t>(count_code_points(self.view().substr(0, where.from + at)));
}
Result<Value> m_find(Runtime&, const Text& self, const Bound& args) {
  return Value::integer(FL_TRY(position(self, args, false)));
}
Result<Value> m_rfind(Runtime&, const Text& self, const Bound& args) {
  return Value::integer(FL_TRY(position(self, args, true)));
}
Result<Value> index_with(const Text& self, const Bound& args, bool from_right) {
  const int64_t at = FL_TRY(position(self, args, from_right));
  if (at < 0) return invalid_data("substring not found");
  return Value::integer(at);
}
Result<Value> m_index(Runtime&, const Text& self, const Bound& args) { return index_with(self, args, false); }
Result<Value> m_rindex(Runtime&, const Text& self, const Bound& args) { return index_with(self, args, true); }

Result<Value> m_count(Runtime&, const Text& self, const Bound& args) {
  const Text needle = FL_TRY(args.text(0)).value_or(Text());
  const Window where = FL_TRY(window(self, args));
  if (where.is_empty_range) return Value::integer(0);
  const std::string_view part = self.view().substr(where.from, where.to - where.from);
  return Value::integer(static_cast<int64_t>(count_hits(part, needle.view())));
}

Result<Value> m_replace(Runtime& runtime, const Text& self, const Bound& args) {
  const std::optional<Text> old = FL_TRY(args.text(0));
  const std::optional<Text> with = FL_TRY(args.text(1));
  if (!old || !with) return invalid_data("replace() argument must be str, not NoneType");
  FL_TRY(check_growth(runtime, self, *old, *with));
  return runtime.text(replace_all(self, matched(self, *old).view(), matched(self, *with), FL_TRY(args.integer(2, -1))));
}

Result<Value> m_removeprefix(Runtime& runtime, const Text& self, const Bound& args) {
  const Text affix = FL_TRY(args.text(0)).value_or(Text());
  return runtime.text(self.view().starts_with(affix.view()) ? self.slice(affix.size(), self.size()) : self);
}
Result<Value> m_removesuffix(Runtime& runtime, const Text& self, const Bound& args) {
  const Text affix = FL_TRY(args.text(0)).value_or(Text());
  return runtime.text(self.view().ends_with(affix.view()) ? self.slice(0, self.size() - affix.size()) : self);
}

Result<Value> m_upper(Runtime& r, const Text& self, const Bound&) { return r.text(to_upper(self)); }
Result<Value> m_lower(Runtime& r, const Text& self, const Bound&) { return r.text(to_lower(self)); }
Result<Value> m_title(Runtime& r, const Text& self, const Bound&) { return r.text(to_title(self)); }
Result<Value> m_capitalize(Runtime& r, const Text& self, const Bound&) { return r.text(to_capitalized(self)); }
Result<Value> m_swapcase(Runtime& r, const Text& self, const Bound&) { return r.text(swap_case(self)); }

Result<Value> m_join(Runtime& runtime, const Text& self, const Bound& args) {
  std::vector<Value> items = FL_TRY(items_of(args[0]));
  FL_TRY(runtime.charge(items.size()));
  if (self.is_markup()) {
    for (Value& item : items) {
      if (item.is_string()) item = Value(matched(self, item.as_text()));
    }
  }
  Value out = FL_TRY(join_texts(runtime, self, items));
  if (!self.is_markup()) return out;
  Text text = out.as_text();
  text.set_markup(true);
  return Value(std::move(text));
}

// Pads to `width` code points; `left_share` of the padding goes left.
Result<Value> pad(Runtime& runtime, const Text& self, const Bound& args, char where) {
  const int64_t missing = FL_TRY(args.integer(0, 0)) - static_cast<int64_t>(count_code_points(self.view()));
  Text fill = FL_TRY(args.text(1)).value_or(Text(" ", true));
  if (count_code_points(fill.view()) != 1) return invalid_data("The fill character must be exactly one character long");
  if (missing <= 0) return Value(self);
  if (static_cast<size_t>(missing) > runtime.limits().string_bytes / fill.size())
    return unsupported("padding too wide");
  const int64_t width = FL_TRY(args.integer(0, 0));
  const int64_t left = where == 'l' ? 0 : where == 'r' ? missing : missing / 2 + (missing & width & 1);
  Text out = repeat(fill, static_cast<size_t>(left));
  out.append(self);
  out.append(repeat(fill, static_cast<size_t>(missing - left)));
  out.set_markup(self.is_markup());
  return runtime.text(std::move(out));
}
Result<Value> m_ljust(Runtime& r, const Text& self, const Bound& args) { return pad(r, self, args, 'l'); }
Result<Value> m_rjust(Runtime& r, const Text& self, const Bound& args) { return pad(r, self, args, 'r'); }
Result<Value> m_center(Runtime& r, const Text& self, const Bound& args) { return pad(r, self, args, 'c'); }

Result<Value> m_zfill(Runtime& runtime, const Text& self, const Bound& args) {
  const int64_t missing = FL_TRY(args.integer(0, 0)) - static_cast<int64_t>(count_code_points(self.view()));
  if (missing <= 0) return Value(self);
  if (static_cast<size_t>(missing) > runtime.limits().string_bytes) return unsupported("padding too wide");
  const size_t sign = self.view().starts_with("+") || self.view().starts_with("-") ? 1 : 0;
  Text out = self.slice(0, sign);
  out.append(std::string(static_cast<size_t>(missing), '0'), true);
  out.append_slice(self, sign, self.size());
  return runtime.text(std::move(out));
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool is_alpha(char32_t c) { return category(c) >= UTF8PROC_CATEGORY_LU && category(c) <= UTF8PROC_CATEGORY_LO; }
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
// Digits beyond the decimal ones: superscripts, subscripts and circled forms.
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) || c == 0x24FF ||
         (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278A && c <= 0x2792);
}
bool is_ascii(char32_t c) { return c < 0x80; }
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

Result<Value> all(const Text& self, bool (*predicate)(char32_t)) {
  return Value(!self.empty() && all_code_points(self.view(), predicate));
}
Result<Value> m_isalpha(Runtime&, const Text& self, const Bound&) { return all(self, is_alpha); }
Result<Value> m_isdecimal(Runtime&, const Text& self, const Bound&) { return all(self, is_decimal); }
Result<Value> m_isdigit(Runtime&, const Text& self, const Bound&) { return all(self, is_digit); }
Result<Value> m_isnumeric(Runtime&, const Text& self, const Bound&) { return all(self, is_numeric); }
Result<Value> m_isalnum(Runtime&, const Text& self, const Bound&) { return all(self, is_alnum); }
Result<Value> m_isspace(Runtime&, const Text& self, const Bound&) { return all(self, is_space); }
Result<Value> m_isascii(Runtime&, const Text& self, const Bound&) {
  return Value(all_code_points(self.view(), is_ascii));
}
Result<Value> m_isupper(Runtime&, const Text& self, const Bound&) { return Value(is_upper(self.view())); }
Result<Value> m_islower(Runtime&, const Text& self, const Bound&) { return Value(is_lower(self.view())); }
Result<Value> m_istitle(Runtime&, const Text& self, const Bound&) {
  bool any = false;
  bool good = true;
  bool after_cased = false;
  for_each_code_point(self.view(), [&](char32_t c, size_t, size_t) {
    const bool starts = !is_lower_char(c);
    if (is_cased(c)) {
      good = starts != after_cased;
      any = true;
    }
    after_cased = is_cased(c);
    return good;
  });
  return Value(any && good);
}

struct Row {
  std::string_view name;
  std::string_view params;
  size_t required;
  Method method;
};

constexpr Row kMethods[] = {
    {"strip", "chars", 0, m_strip},
    {"lstrip", "chars", 0, m_lstrip},
    {"rstrip", "chars", 0, m_rstrip},
    {"split", "sep maxsplit", 0, m_split},
    {"rsplit", "sep maxsplit", 0, m_rsplit},
    {"splitlines", "keepends", 0, m_splitlines},
    {"partition", "sep", 1, m_partition},
    {"rpartition", "sep", 1, m_rpartition},
    {"startswith", "prefix start end", 1, m_startswith},
    {"endswith", "suffix start end", 1, m_endswith},
    {"find", "sub start end", 1, m_find},
    {"rfind", "sub start end", 1, m_rfind},
    {"index", "sub start end", 1, m_index},
    {"rindex", "sub start end", 1, m_rindex},
    {"count", "sub start end", 1, m_count},
    {"replace", "old new count", 2, m_replace},
    {"removeprefix", "prefix", 1, m_removeprefix},
    {"removesuffix", "suffix", 1, m_removesuffix},
    {"upper", "", 0, m_upper},
    {"lower", "", 0, m_lower},
    {"title", "", 0, m_title},
    {"capitalize", "", 0, m_capitalize},
    {"swapcase", "", 0, m_swapcase},
    {"join", "iterable", 1, m_join},
    {"ljust", "width fillchar", 1, m_ljust},
    {"rjust", "width fillchar", 1, m_rjust},
    {"center", "width fillchar", 1, m_center},
    {"zfill", "width", 1, m_zfill},
    {"isalpha", "", 0, m_isalpha},
    {"isdecimal", "", 0, m_isdecimal},
    {"isdigit", "", 0, m_isdigit},
    {"isnumeric", "", 0, m_isnumeric},
    {"isalnum", "", 0, m_isalnum},
    {"isspace", "", 0, m_isspace},
    {"isascii", "", 0, m_isascii},
    {"isupper", "", 0, m_isupper},
    {"islower", "", 0, m_islower},
    {"istitle", "", 0, m_istitle},
};

const Row* find_row(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](const Row& r) { return r.name == name; });
  return row == std::end(kMethods) ? nullptr : row;
}

}  // namespace

bool is_unsupported_method_name(std::string_view name) {
  return name == "encode" || name == "translate" || name == "maketrans" || name == "casefold" || name == "expandtabs" ||
         name == "isidentifier" || name == "isprintable";
}

MethodKind find_str_method(std::string_view name) {
  if (find_row(name) != nullptr || name == "format" || name == "format_map") return MethodKind::kMethod;
  return is_unsupported_method_name(name) ? MethodKind::kUnsupported : MethodKind::kNone;
}

Result<Value> call_str_method(Runtime& runtime, const Text& self, std::string_view name, CallArgs args) {
  if (name == "format") return format_braces(runtime, self, args);
  if (name == "format_map") {
    const Bound bound = FL_TRY(Bound::bind(name, "mapping", 1, std::move(args)));
    if (!bound[0].is_dict()) return unsupported("format_map() with '" + type_name(bound[0]) + "'");
    CallArgs named;
    for (const auto& [key, value] : bound[0].as_dict()->entries) {
      if (key.is_string()) named.named.emplace_back(key.as_text().bytes(), value);
    }
    return format_braces(runtime, self, named);
  }
  const Row* row = find_row(name);
  const bool positional_only = name != "split" && name != "rsplit" && name != "splitlines";
  if (positional_only) FL_TRY(refuse_named(name, args));
  for (const Value& argument : args.positional) {
    if (argument.is_undefined() && name != "join") return invalid_data(argument.undefined_message());
  }
  return row->method(runtime, self, FL_TRY(Bound::bind(name, row->params, row->required, std::move(args))));
}

}  // namespace firstlight::text::jinja
