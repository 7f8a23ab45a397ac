// SPDX-License-Identifier: Apache-2.0
#include "intake/name_pattern.h"

#include <algorithm>
#include <cctype>

namespace firstlight::intake {
namespace {

// `*` stands for any run of characters. Linear time but for the one star it backtracks to.
bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

Result<NamePattern> NamePattern::parse(std::string_view text, bool classes) {
  if (text.starts_with("re:")) {
    NamePattern pattern(Kind::kRegex, text);
    // The group and the anchor in front make it a match from the start of the name.
    pattern.regex_ = FL_TRY(text::Regex::compile("\\A(?:" + std::string(text.substr(3)) + ")")
                                .with_context("quantisation config, '" + std::string(text) + "'"));
    return pattern;
  }
  if (text.find('*') != std::string_view::npos) return NamePattern(Kind::kGlob, text);
  const bool is_class = classes && !text.empty() && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
                        text.find('.') == std::string_view::npos;
  return NamePattern(is_class ? Kind::kClass : Kind::kName, text);
}

bool NamePattern::matches_whole(std::string_view name) const {
  switch (kind_) {
    case Kind::kName:
      return name.ends_with(text_) && (name.size() == text_.size() || name[name.size() - text_.size() - 1] == '.');
    case Kind::kGlob:
      return matches_glob(text_, name);
    case Kind::kRegex: {
      const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
      if (!plain) return false;  // names are ASCII; the engine wants valid UTF-8
      std::vector<text::Span> matches;
      return regex_->find_all(name, matches).ok() && !matches.empty();
    }
    case Kind::kClass:
      return true;
  }
  return false;
}

bool NamePattern::matches(std::string_view module) const {
  for (size_t end = module.size(); end != std::string_view::npos && end > 0;) {
    if (matches_whole(module.substr(0, end))) return true;
    end = module.rfind('.', end - 1);
  }
  return false;
}

}  // namespace firstlight::intake
