// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/provenance.h"

#include <algorithm>

#include "base/check.h"

namespace firstlight::text::jinja {

Text::Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), trusted});
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), trusted});
  }
}

void Text::append_slice(const Text& other, size_t from, size_t to) {
  FL_DCHECK(from <= to && to <= other.size());
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), from,
                              [](size_t pos, const Run& r) { return pos < r.end; });
  while (from < to) {
    const size_t end = std::min(to, run->end);
    append(std::string_view(other.bytes_).substr(from, end - from), run->trusted);
    from = end;
    ++run;
  }
}

Text Text::slice(size_t from, size_t to) const {
  Text out;
  out.append_slice(*this, from, to);
  out.is_markup_ = is_markup_;
  return out;
}

bool Text::trusted_at(size_t pos) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), pos, [](size_t p, const Run& r) { return p < r.end; });
  return run != runs_.end() && run->trusted;
}

bool Text::is_trusted() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.trusted; });
}

std::vector<Segment> Text::segments() const {
  std::vector<Segment> out;
  size_t from = 0;
  for (const Run& run : runs_) {
    out.push_back({bytes_.substr(from, run.end - from), run.trusted});
    from = run.end;
  }
  return out;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t code_point_offset(std::string_view text, size_t index) {
  size_t pos = 0;
  for (; pos < text.size(); ++pos) {
    if ((static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80) continue;
    if (index == 0) return pos;
    --index;
  }
  return text.size();
}

}  // namespace firstlight::text::jinja
