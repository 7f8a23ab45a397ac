// SPDX-License-Identifier: Apache-2.0
// Which weights are stored in which format: rules over module names, as one flag says them (`convert --to`) or a TOML
// file (`convert --policy`, docs/mixed_precision.md). No checkpoint is looked at here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::adapt {

enum class QuantFormat : uint8_t { kInt8, kInt4, kFp8, kMxfp4 };

std::string_view quant_format_name(QuantFormat format);  // "int8", "int4", "fp8", "mxfp4"
std::optional<QuantFormat> quant_format_from_name(std::string_view name);

constexpr int64_t kDefaultGroup = 128;

// A way to store a matrix. `group`: columns that share a scale of INT4 and INT8 (where they do not come out even, the
// row); 128 and 32, and no choice, for FP8 and MXFP4.
struct QuantChoice {
  QuantFormat format = QuantFormat::kInt8;
  int64_t group = kDefaultGroup;

  // Errors: kInvalidArgument naming the word ("int4", "int4:32", "fp8" and so on wanted).
  static Result<QuantChoice> parse(std::string_view word);
  static Result<QuantChoice> make(QuantFormat format, std::optional<int64_t> group);

  bool packs_integers() const { return format == QuantFormat::kInt4 || format == QuantFormat::kInt8; }
  std::string name() const;  // "int4:32", "fp8"
  friend auto operator<=>(const QuantChoice&, const QuantChoice&) = default;
};

struct QuantRule {
  std::string modules;                // a name, glob or "re:" expression (intake/name_pattern.h)
  std::optional<QuantChoice> choice;  // none: as it is
  std::string said;                   // who says so, for messages: "--keep", "rule 2 of policy.toml"
};

// The first rule that names a module counts; one that no rule names stays as it is.
struct QuantPolicy {
  std::vector<QuantRule> rules;
};

QuantPolicy uniform_policy(const QuantChoice& choice, const std::vector<std::string>& keep);

// A policy file: [[rule]] tables with `store`, `group` and `modules`. `name` stands in messages. Errors: kInvalidData
// for what is no TOML, a key or a format that nobody knows (by name), rules without modules.
Result<QuantPolicy> parse_policy(std::string_view text, const std::string& name);
Result<QuantPolicy> read_policy(const std::string& path);

// The file that says the rules, one table for neighbours that store alike; `head`: lines of comment.
std::string policy_text(const QuantPolicy& policy, const std::vector<std::string>& head);

}  // namespace firstlight::adapt
