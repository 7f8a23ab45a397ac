// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/text_ops.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/jinja/case_table.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

void for_each_code_point(std::string_view text, const std::function<bool(char32_t, size_t, size_t)>& fn) {
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_utf8(text, pos);
    const size_t length = std::max<size_t>(1, c.length);
    if (!fn(c.value, pos, length)) return;
    pos += length;
  }
}

bool all_code_points(std::string_view text, bool (*predicate)(char32_t)) {
  bool all = true;
  for_each_code_point(text, [&](char32_t c, size_t, size_t) { return all = predicate(c); });
  return all;
}

std::string map_case(char32_t c, Case to) {
  std::string out;
  if (c < 0x80) {
    const bool up = c >= 'a' && c <= 'z' && to != Case::kLower;
    const bool down = c >= 'A' && c <= 'Z' && to == Case::kLower;
    out += static_cast<char>(up ? c - 32 : down ? c + 32 : c);
    return out;
  }
  if (to == Case::kLower) {
    if (c == 0x130) return "i\xCC\x87";
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    return out;
  }
  if (const SpecialCase* special = find_special_case(c)) {
    for (const char16_t part : to == Case::kUpper ? special->upper : special->title) {
      if (part != 0) append_utf8(out, part);
    }
    return out;
  }
  const auto code = static_cast<utf8proc_int32_t>(c);
  append_utf8(out, static_cast<char32_t>(to == Case::kUpper ? utf8proc_toupper(code) : utf8proc_totitle(code)));
  return out;
}

bool is_upper_char(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_lower_char(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }

bool is_cased(char32_t c) {
  return is_upper_char(c) || is_lower_char(c) ||
         utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LT;
}

namespace {

bool is_case_ignorable(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
         c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

size_t code_point_start(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

// Whether the capital sigma at `pos` ends a word: a cased letter before it, none after it.
bool is_final_sigma(std::string_view text, size_t pos, size_t length) {
  bool cased_before = false;
  for (size_t end = pos; end > 0; end = code_point_start(text, end)) {
    const char32_t c = decode_utf8(text, code_point_start(text, end)).value;
    if (is_case_ignorable(c)) continue;
    cased_before = is_cased(c);
    break;
  }
  bool cased_after = false;
  for_each_code_point(text.substr(pos + length), [&](char32_t c, size_t, size_t) {
    if (is_case_ignorable(c)) return true;
    cased_after = is_cased(c);
    return false;
  });
  return cased_before && !cased_after;
}

std::string lower_at(std::string_view text, char32_t c, size_t pos, size_t length) {
  if (c == 0x3A3) return is_final_sigma(text, pos, length) ? "\xCF\x82" : "\xCF\x83";
  return map_case(c, Case::kLower);
}

// Maps every code point; `to` chooses the case from the code point and its place.
Text map_text(const Text& text, const std::function<Case(char32_t, size_t)>& to) {
  Text out;
  for_each_code_point(text.view(), [&](char32_t c, size_t pos, size_t length) {
    const Case target = to(c, pos);
    out.append(target == Case::kLower ? lower_at(text.view(), c, pos, length) : map_case(c, target),
               text.trusted_at(pos));
    return true;
  });
  out.set_markup(text.is_markup());
  return out;
}

}  // namespace

Text to_upper(const Text& text) {
  return map_text(text, [](char32_t, size_t) { return Case::kUpper; });
}

Text to_lower(const Text& text) {
  return map_text(text, [](char32_t, size_t) { return Case::kLower; });
}

Text to_title(const Text& text) {
  bool after_cased = false;
  return map_text(text, [&](char32_t c, size_t) {
    const Case to = after_cased ? Case::kLower : Case::kTitle;
    after_cased = is_cased(c);
    return to;
  });
}

Text to_capitalized(const Text& text) {
  return map_text(text, [](char32_t, size_t pos) { return pos == 0 ? Case::kTitle : Case::kLower; });
}

Text swap_case(const Text& text) {
  return map_text(text, [](char32_t c, size_t) { return is_upper_char(c) ? Case::kLower : Case::kUpper; });
}

bool is_upper(std::string_view text) {
  bool any = false;
  bool good = true;
  for_each_code_point(text, [&](char32_t c, size_t, size_t) {
    any = any || is_upper_char(c);
    return good = !is_cased(c) || is_upper_char(c);
  });
  return any && good;
}

bool is_lower(std::string_view text) {
  bool any = false;
  bool good = true;
  for_each_code_point(text, [&](char32_t c, size_t, size_t) {
    any = any || is_lower_char(c);
    return good = !is_cased(c) || is_lower_char(c);
  });
  return any && good;
}

namespace {

bool strips(std::string_view code_point, std::optional<std::string_view> chars) {
  if (!chars.has_value()) return is_space(decode_utf8(code_point, 0).value);
  return chars->find(code_point) != std::string_view::npos;  // whole code points only match at their own starts
}

}  // namespace

Text strip(const Text& text, std::optional<std::string_view> chars, bool left, bool right) {
  const std::string_view view = text.view();
  size_t from = 0;
  size_t to = view.size();
  while (left && from < to) {
    const size_t length = std::min<size_t>(utf8_length(static_cast<unsigned char>(view[from])), to - from);
    if (!strips(view.substr(from, length), chars)) break;
    from += length;
  }
  while (right && to > from) {
    const size_t start = code_point_start(view, to);
    if (!strips(view.substr(start, to - start), chars)) break;
    to = start;
  }
  return text.slice(from, to);
}

size_t count_hits(std::string_view text, std::string_view needle) {
  if (needle.empty()) return count_code_points(text) + 1;
  size_t count = 0;
  for (size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + needle.size())) ++count;
  return count;
}

Text replace_all(const Text& text, std::string_view old, const Text& with, int64_t count) {
  Text out;
  size_t pos = 0;
  const std::string_view view = text.view();
  if (old.empty()) {  // between all code points, at both ends
    for (int64_t done = 0;; ++done) {
      if (count >= 0 && done >= count) break;
      out.append(with);
      if (pos >= view.size()) break;
      const size_t end = std::min(view.size(), pos + utf8_length(static_cast<unsigned char>(view[pos])));
      out.append_slice(text, pos, end);
      pos = end;
    }
  }
  while (!old.empty() && count != 0) {
    const size_t found = view.find(old, pos);
    if (found == std::string_view::npos) break;
    out.append_slice(text, pos, found);
    out.append(with);
    pos = found + old.size();
    if (count > 0) --count;
  }
  out.append_slice(text, std::min(pos, view.size()), view.size());
  out.set_markup(text.is_markup());
  return out;
}

namespace {

std::vector<Text> split_spaces(const Text& text, int64_t limit) {
  std::vector<Text> out;
  const std::string_view view = text.view();
  size_t pos = 0;
  const auto skip = [&](bool spaces) {
    while (pos < view.size()) {
      const CodePoint c = decode_utf8(view, pos);
      if (is_space(c.value) != spaces) break;
      pos += c.length;
    }
  };
  while (true) {
    skip(true);
    if (pos >= view.size()) return out;
    if (limit >= 0 && static_cast<int64_t>(out.size()) >= limit) break;
    const size_t start = pos;
    skip(false);
    out.push_back(text.slice(start, pos));
  }
  out.push_back(text.slice(pos, view.size()));
  return out;
}

std::vector<Text> split_spaces_right(const Text& text, int64_t limit) {
  std::vector<Text> out;
  const std::string_view view = text.view();
  size_t end = view.size();
  const auto skip = [&](bool spaces) {
    while (end > 0) {
      const size_t start = code_point_start(view, end);
      if (is_space(decode_utf8(view, start).value) != spaces) break;
      end = start;
    }
  };
  while (true) {
    skip(true);
    if (end == 0) break;
    if (limit >= 0 && static_cast<int64_t>(out.size()) >= limit) {
      out.push_back(text.slice(0, end));
      break;
    }
    const size_t stop = end;
    skip(false);
    out.push_back(text.slice(end, stop));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<Text> split(const Text& text, std::optional<std::string_view> separator, int64_t limit) {
  if (!separator.has_value()) return split_spaces(text, limit);
  std::vector<Text> out;
  size_t pos = 0;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t found = text.view().find(*separator, pos);
    if (found == std::string_view::npos) break;
    out.push_back(text.slice(pos, found));
    pos = found + separator->size();
  }
  out.push_back(text.slice(pos, text.size()));
  return out;
}

std::vector<Text> split_right(const Text& text, std::optional<std::string_view> separator, int64_t limit) {
  if (!separator.has_value()) return split_spaces_right(text, limit);
  std::vector<Text> out;
  size_t end = text.size();
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    if (end < separator->size()) break;
    const size_t found = text.view().substr(0, end).rfind(*separator);
    if (found == std::string_view::npos) break;
    out.push_back(text.slice(found + separator->size(), end));
    end = found;
  }
  out.push_back(text.slice(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> out;
  const std::string_view view = text.view();
  size_t start = 0;
  for (size_t pos = 0; pos < view.size();) {
    const CodePoint c = decode_utf8(view, pos);
    size_t end = pos + std::max<size_t>(1, c.length);
    if (is_line_break(c.value)) {
      if (c.value == '\r' && end < view.size() && view[end] == '\n') ++end;
      out.push_back(text.slice(start, keep_ends ? end : pos));
      start = end;
    }
    pos = end;
  }
  if (start < view.size()) out.push_back(text.slice(start, view.size()));
  return out;
}

Text escape_markup(const Text& text) {
  Text out;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    const char c = text.bytes()[pos];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                    : c == '"'  ? "&#34;"
                                                : std::string_view();
    out.append(entity.empty() ? text.view().substr(pos, 1) : entity, text.trusted_at(pos));
  }
  out.set_markup(true);
  return out;
}

Text repeat(const Text& fill, size_t count) {
  Text out;
  for (size_t i = 0; i < count; ++i) out.append(fill);
  out.set_markup(fill.is_markup());
  return out;
}

}  // namespace firstlight::text::jinja
