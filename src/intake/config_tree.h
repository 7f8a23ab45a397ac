// SPDX-License-Identifier: Apache-2.0
// A model's config as a tree in file order, and its leaves by dotted path. A leaf is a scalar, null, an empty object,
// or a list of scalars: the unit in which coverage counts. Copies are cheap enough to change one leaf and trace again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace firstlight::formats {
class Checkpoint;
class GgufFile;
}  // namespace firstlight::formats

namespace firstlight::intake {

struct ConfigNode {
  enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<ConfigNode> items;                            // kList
  std::vector<std::pair<std::string, ConfigNode>> members;  // kObject, in file order

  static ConfigNode of_bool(bool value);
  static ConfigNode of_int(int64_t value);
  static ConfigNode of_float(double value);
  static ConfigNode of_string(std::string value);

  const ConfigNode* find(std::string_view key) const;  // member of an object; nullptr: absent
  bool is_leaf() const;
  std::string to_string() const;  // short, for messages
  friend bool operator==(const ConfigNode&, const ConfigNode&) = default;
};

std::string_view config_kind_name(ConfigNode::Kind kind);

struct ConfigLeaf {
  std::string path;           // "rope_scaling.factor"
  std::vector<size_t> steps;  // child index at each level from the root
};
std::vector<ConfigLeaf> config_leaves(const ConfigNode& root);
ConfigNode& config_at(ConfigNode& root, const ConfigLeaf& leaf);

// Values unlike `value`, likeliest to matter first: what a probe puts in its place.
std::vector<ConfigNode> changed_values(const ConfigNode& value);

// Errors: kInvalidData (not a JSON object, nested deeper than 64).
Result<ConfigNode> parse_config_tree(std::string_view json);

// The metadata of a GGUF that describes the model: keys of "general." and of the architecture, each a leaf; tokenizer.*
// belongs to module text. Errors: kInvalidData (arrays of arrays).
Result<ConfigNode> config_tree_of_gguf(const formats::GgufFile& file);

// What the header of a ggmf file states (Checkpoint::metadata), under the names of other configs; model_type is
// "rwkv.cpp", since that program alone writes them; and the number of heads, which the shape of a tensor tells.
Result<ConfigNode> config_tree_of_ggmf(const formats::Checkpoint& checkpoint);

}  // namespace firstlight::intake
