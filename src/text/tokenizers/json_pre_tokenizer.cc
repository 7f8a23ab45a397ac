// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of tokenizer.json; see json_components.h.
#include <array>

#include "text/tokenizers/json_components.h"

namespace firstlight::text {
namespace {

Result<SplitBehavior> read_behavior(const JsonElement& item, std::string_view fallback) {
  const std::string name = FL_TRY(string_field(item, "behavior", fallback));
  // Both spellings occur: serde's names and the Python binding's.
  if (name == "Removed" || name == "removed") return SplitBehavior::kRemoved;
  if (name == "Isolated" || name == "isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious" || name == "merged_with_previous") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext" || name == "merged_with_next") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous" || name == "contiguous") return SplitBehavior::kContiguous;
  return unsupported("pre-tokenizer: split behaviour '" + name + "'");
}

Result<PreTokenizerStep> read_metaspace(const JsonElement& item) {
  pretok::Metaspace spec;
  spec.replacement = FL_TRY(string_field(item, "replacement", "\xE2\x96\x81"));
  if (spec.replacement.empty()) return invalid_data("pre-tokenizer Metaspace: no replacement");
  const bool add_prefix = FL_TRY(bool_field(item, "add_prefix_space", true));
  const std::string scheme = FL_TRY(string_field(item, "prepend_scheme", add_prefix ? "always" : "never"));
  if (scheme == "always") {
    spec.prefix = pretok::Prefix::kAlways;
  } else if (scheme == "first") {
    spec.prefix = pretok::Prefix::kFirst;
  } else if (scheme == "never") {
    spec.prefix = pretok::Prefix::kNever;
  } else {
    return unsupported("pre-tokenizer Metaspace: prepend_scheme '" + scheme + "'");
  }
  spec.split = FL_TRY(bool_field(item, "split", true));
  return PreTokenizerStep(std::move(spec));
}

Result<PreTokenizerStep> read_byte_level(const JsonElement& item) {
  pretok::ByteLevel spec;
  spec.add_prefix_space = FL_TRY(bool_field(item, "add_prefix_space", true));
  spec.use_regex = FL_TRY(bool_field(item, "use_regex", true));
  spec.pattern = FL_TRY(Regex::compile(byte_level_pattern()));
  return PreTokenizerStep(std::move(spec));
}

Result<PreTokenizerStep> read_split(const JsonElement& item) {
  const JsonPattern pattern = FL_TRY(read_pattern(item, "pre-tokenizer Split"));
  pretok::Split spec;
  Result<Regex> regex = pattern.is_regex ? Regex::compile(pattern.text) : Regex::literal(pattern.text);
  spec.pattern = FL_TRY(std::move(regex));
  spec.behavior = FL_TRY(read_behavior(item, "Isolated"));
  spec.invert = FL_TRY(bool_field(item, "invert", false));
  return PreTokenizerStep(std::move(spec));
}

Result<PreTokenizerStep> read_delimiter(const JsonElement& item) {
  pretok::Split spec;
  const std::string delimiter = FL_TRY(string_field(item, "delimiter", ""));
  spec.pattern = FL_TRY(Regex::literal(delimiter));
  spec.behavior = SplitBehavior::kRemoved;
  return PreTokenizerStep(std::move(spec));
}

Result<PreTokenizerStep> read_scripts() {
  pretok::Split spec;
  spec.pattern = FL_TRY(Regex::compile(unicode_scripts_pattern()));
  spec.behavior = SplitBehavior::kRemoved;
  spec.invert = true;
  return PreTokenizerStep(std::move(spec));
}

PreTokenizerStep char_split(pretok::CharClass kind, SplitBehavior behavior) {
  return PreTokenizerStep(pretok::CharSplit{kind, behavior});
}

Result<PreTokenizerStep> read_step(const JsonElement& item, const std::string& type) {
  if (type == "ByteLevel") return read_byte_level(item);
  if (type == "Metaspace") return read_metaspace(item);
  if (type == "Split") return read_split(item);
  if (type == "CharDelimiterSplit") return read_delimiter(item);
  if (type == "UnicodeScripts") return read_scripts();
  if (type == "Whitespace") return PreTokenizerStep(pretok::Whitespace{});
  if (type == "WhitespaceSplit") return char_split(pretok::CharClass::kWhiteSpace, SplitBehavior::kRemoved);
  if (type == "Punctuation") {
    const SplitBehavior behavior = FL_TRY(read_behavior(item, "Isolated"));
    return char_split(pretok::CharClass::kPunctuation, behavior);
  }
  if (type == "Digits") {
    const bool individual = FL_TRY(bool_field(item, "individual_digits", false));
    return char_split(pretok::CharClass::kNumeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "FixedLength") {
    const int64_t length = FL_TRY(int_field(item, "length", 5));
    if (length <= 0) return invalid_data("pre-tokenizer FixedLength: length " + std::to_string(length));
    return PreTokenizerStep(pretok::FixedLength{static_cast<size_t>(length)});
  }
  return unsupported("pre-tokenizer of type '" + type + "'");
}

}  // namespace

Result<PreTokenizer> read_pre_tokenizer(const std::optional<JsonElement>& component) {
  std::vector<PreTokenizerStep> steps;
  if (!component) return PreTokenizer();
  size_t budget = kMaxComponents;
  const auto read = [&steps](const JsonElement& item) -> Status {
    const std::string type = FL_TRY(type_of(item, "pre-tokenizer"));
    if (type == "BertPreTokenizer") {
      steps.push_back(char_split(pretok::CharClass::kWhiteSpace, SplitBehavior::kRemoved));
      steps.push_back(char_split(pretok::CharClass::kPunctuation, SplitBehavior::kIsolated));
      return ok_status();
    }
    steps.push_back(FL_TRY(read_step(item, type)));
    return ok_status();
  };
  FL_TRY(for_each_component(*component, "pre-tokenizer", "pretokenizers", budget, read));
  return PreTokenizer(std::move(steps));
}

}  // namespace firstlight::text
