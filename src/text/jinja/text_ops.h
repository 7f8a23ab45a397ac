// SPDX-License-Identifier: Apache-2.0
// Python's view of text: what counts as white space, letter cases with their full mappings, stripping, splitting,
// searching and replacing, all keeping provenance. The building stones of methods and filters.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/provenance.h"

namespace firstlight::text::jinja {

// str.isspace() of one code point.
bool is_space(char32_t c);
// A line boundary of str.splitlines().
bool is_line_break(char32_t c);

enum class Case : uint8_t { kUpper, kLower, kTitle };
// The full mapping of one code point (one to three code points, UTF-8).
std::string map_case(char32_t c, Case to);

Text to_upper(const Text& text);
Text to_lower(const Text& text);  // with Python's rule for a final sigma
Text to_title(const Text& text);  // str.title
Text to_capitalized(const Text& text);
Text swap_case(const Text& text);

bool is_upper_char(char32_t c);
bool is_lower_char(char32_t c);
bool is_cased(char32_t c);
// str.isupper / str.islower.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

// Calls `fn(code point, byte position, byte length)` until it returns false.
void for_each_code_point(std::string_view text, const std::function<bool(char32_t, size_t, size_t)>& fn);
bool all_code_points(std::string_view text, bool (*predicate)(char32_t));

// str.strip and kin: white space, or the code points of `chars`.
Text strip(const Text& text, std::optional<std::string_view> chars, bool left, bool right);

// str.replace; `count` < 0: all.
Text replace_all(const Text& text, std::string_view old, const Text& with, int64_t count);

// How often `needle` occurs without overlap; the empty one between all code points and at both ends.
size_t count_hits(std::string_view text, std::string_view needle);

// str.split / str.rsplit; no separator: runs of white space. `limit` < 0: no limit.
std::vector<Text> split(const Text& text, std::optional<std::string_view> separator, int64_t limit);
std::vector<Text> split_right(const Text& text, std::optional<std::string_view> separator, int64_t limit);
std::vector<Text> split_lines(const Text& text, bool keep_ends);

// Escapes &, <, >, ' and " as markupsafe does; the result is markup.
Text escape_markup(const Text& text);

// `count` copies of `fill`.
Text repeat(const Text& fill, size_t count);

}  // namespace firstlight::text::jinja
