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

// Checkpoints have a name per module at most, and a glob or an expression per layer and kind.
constexpr size_t kMostNames = 100'000;
constexpr size_t kMostOthers = 2'000;

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

Status NameList::add(NamePattern pattern) {
  if (pattern.kind() != NamePattern::Kind::kName) {
    if (others_.size() >= kMostOthers) {
      return unsupported("more than " + std::to_string(kMostOthers) + " globs, expressions and classes");
    }
    others_.push_back(all_.size());
  } else {
    if (names_.size() >= kMostNames) return unsupported("more than " + std::to_string(kMostNames) + " names");
    if (!names_.try_emplace(pattern.text(), all_.size()).second) return ok_status();
  }
  all_.push_back(std::move(pattern));
  return ok_status();
}

void NameList::visit(std::string_view module, const std::function<bool(size_t)>& found) const {
  // A plain name stands for the modules that hold it as whole components: every run of components is looked up.
  for (size_t begin = 0; !names_.empty() && begin < module.size();) {
    for (size_t end = begin; end < module.size();) {
      end = std::min(module.find('.', end + 1), module.size());
      const auto it = names_.find(module.substr(begin, end - begin));
      if (it != names_.end() && !found(it->second)) return;
    }
    const size_t dot = module.find('.', begin);
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  for (const size_t i : others_) {
    if (all_[i].matches(module) && !found(i)) return;
  }
}

bool NameList::matches(std::string_view module) const {
  bool any = false;
  visit(module, [&](size_t) {
    any = true;
    return false;
  });
  return any;
}

}  // namespace firstlight::intake
