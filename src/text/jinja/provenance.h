// SPDX-License-Identifier: Apache-2.0
// Strings that know where their bytes came from. Every string a template handles is a Text: UTF-8 bytes and, run by
// run, whether the template (trusted) or the outside, i.e. messages, tools, request variables (untrusted) wrote them.
// Joining and slicing keep the runs exactly; an operation that can not tell (number formatting of outside values,
// escapes) gives untrusted bytes. Positions are bytes here; code points are counted where Python's semantics ask for
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/segment.h"

namespace firstlight::text::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool trusted);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Markup (the `safe` filter): `+` and methods then escape what they are combined with, as Jinja2 does even with
  // autoescape off.
  bool is_markup() const { return is_markup_; }
  void set_markup(bool value) { is_markup_ = value; }

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other) { append_slice(other, 0, other.size()); }
  // Bytes [from, to) of `other` with their runs.
  void append_slice(const Text& other, size_t from, size_t to);
  Text slice(size_t from, size_t to) const;

  // Whether the byte at `pos` (inside the text) is trusted.
  bool trusted_at(size_t pos) const;
  // Whether every byte is; an empty text is trusted.
  bool is_trusted() const;

  std::vector<Segment> segments() const;

 private:
  struct Run {
    size_t end = 0;
    bool trusted = false;
  };
  std::string bytes_;
  std::vector<Run> runs_;  // ascending ends, neighbours differ; covers bytes_
  bool is_markup_ = false;
};

// Code points of UTF-8 text (continuation bytes are not counted).
size_t count_code_points(std::string_view text);
// Byte offset of code point `index`, text.size() if there are fewer.
size_t code_point_offset(std::string_view text, size_t index);

}  // namespace firstlight::text::jinja
