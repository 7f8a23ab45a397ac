// SPDX-License-Identifier: Apache-2.0
// An entry of a list of module names as quantisation configs write them: a name ("lm_head", "gate": whole components at
// the end), a glob
// ("model.layers.*.mlp"), a regular expression ("re:.*self_attn.*"), or a class ("Linear"), which stands for all
// modules.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/regex.h"

namespace firstlight::intake {

class NamePattern {
 public:
  enum class Kind : uint8_t { kName, kGlob, kRegex, kClass };

  // `classes`: a word that starts with a capital and has no dot is a class. Errors: kInvalidData (a regular expression
  // that is none).
  static Result<NamePattern> parse(std::string_view text, bool classes);

  // Whether it names the module or a parent of it. A regular expression must match from the start of the name on; one
  // that takes too many steps matches nothing.
  bool matches(std::string_view module) const;

  Kind kind() const { return kind_; }
  const std::string& text() const { return text_; }

 private:
  NamePattern(Kind kind, std::string_view text) : kind_(kind), text_(text) {}
  bool matches_whole(std::string_view name) const;

  Kind kind_;
  std::string text_;
  std::optional<text::Regex> regex_;
};

// A list of such entries, in which plain names are looked up and only the others are tried one by one.
class NameList {
 public:
  // Errors: kUnsupported (more entries than a module may be held against).
  Status add(NamePattern pattern);

  const std::vector<NamePattern>& all() const { return all_; }  // each plain name once
  bool empty() const { return all_.empty(); }
  // Calls back with the index of each entry that names the module or a parent of it, until it answers false.
  void visit(std::string_view module, const std::function<bool(size_t)>& found) const;
  bool matches(std::string_view module) const;

 private:
  std::vector<NamePattern> all_;
  std::map<std::string, size_t, std::less<>> names_;
  std::vector<size_t> others_;  // globs, expressions, classes
};

}  // namespace firstlight::intake
