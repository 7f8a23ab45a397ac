// SPDX-License-Identifier: Apache-2.0
#include "intake/config_tree.h"

#include "base/json.h"
#include "formats/config.h"
#include "formats/gguf.h"
#include "formats/tensor_file.h"

namespace firstlight::intake {
namespace {

ConfigNode from_json(const Json& json) {
  ConfigNode node;
  switch (json.type()) {
    case Json::value_t::boolean:
      return ConfigNode::of_bool(json.get<bool>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return ConfigNode::of_float(json.get<double>());
      return ConfigNode::of_int(json.get<int64_t>());
    case Json::value_t::number_integer:
      return ConfigNode::of_int(json.get<int64_t>());
    case Json::value_t::number_float:
      return ConfigNode::of_float(json.get<double>());
    case Json::value_t::string:
      return ConfigNode::of_string(json.get_ref<const std::string&>());
    case Json::value_t::array:
      node.kind = ConfigNode::Kind::kList;
      for (const auto& item : json) node.items.push_back(from_json(item));
      return node;
    case Json::value_t::object:
      node.kind = ConfigNode::Kind::kObject;
      for (const auto& [key, value] : json.items()) node.members.emplace_back(key, from_json(value));
      return node;
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return node;
}

void collect_leaves(const ConfigNode& node, ConfigLeaf& at, std::vector<ConfigLeaf>& out) {
  if (node.is_leaf()) {
    out.push_back(at);
    return;
  }
  const std::string base = at.path;
  const size_t count = node.kind == ConfigNode::Kind::kObject ? node.members.size() : node.items.size();
  for (size_t i = 0; i < count; ++i) {
    const bool object = node.kind == ConfigNode::Kind::kObject;
    at.path = object ? base + (base.empty() ? "" : ".") + node.members[i].first : base + "[" + std::to_string(i) + "]";
    at.steps.push_back(i);
    collect_leaves(object ? node.members[i].second : node.items[i], at, out);
    at.steps.pop_back();
  }
  at.path = base;
}

ConfigNode gguf_scalar(const formats::GgufValue& value, uint64_t idx) {
  const formats::GgufType type = value.is_array() ? value.element_type : value.type;
  if (type == formats::GgufType::kString) {
    return ConfigNode::of_string(idx < value.strings.size() ? std::string(value.strings[idx]) : std::string());
  }
  if (const auto boolean = value.bool_at(idx)) return ConfigNode::of_bool(*boolean);
  if (const auto integer = value.integer_at(idx)) return ConfigNode::of_int(*integer);
  if (const auto number = value.number_at(idx)) return ConfigNode::of_float(*number);
  return {};
}

}  // namespace

ConfigNode ConfigNode::of_bool(bool value) {
  ConfigNode node;
  node.kind = Kind::kBool;
  node.boolean = value;
  return node;
}

ConfigNode ConfigNode::of_int(int64_t value) {
  ConfigNode node;
  node.kind = Kind::kInt;
  node.integer = value;
  return node;
}

ConfigNode ConfigNode::of_float(double value) {
  ConfigNode node;
  node.kind = Kind::kFloat;
  node.number = value;
  return node;
}

ConfigNode ConfigNode::of_string(std::string value) {
  ConfigNode node;
  node.kind = Kind::kString;
  node.text = std::move(value);
  return node;
}

const ConfigNode* ConfigNode::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool ConfigNode::is_leaf() const {
  if (kind == Kind::kObject) return members.empty();
  if (kind != Kind::kList) return true;
  for (const ConfigNode& item : items) {
    if (item.kind == Kind::kObject || item.kind == Kind::kList) return false;
  }
  return true;
}

std::string ConfigNode::to_string() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kInt:
      return std::to_string(integer);
    case Kind::kFloat:
      return dump_json(Json(number));
    case Kind::kString:
      return "\"" + text.substr(0, 100) + "\"";
    case Kind::kList:
      return "a list of " + std::to_string(items.size());
    case Kind::kObject:
      return "an object of " + std::to_string(members.size()) + " keys";
  }
  return "";
}

std::string_view config_kind_name(ConfigNode::Kind kind) {
  switch (kind) {
    case ConfigNode::Kind::kNull:
      return "null";
    case ConfigNode::Kind::kBool:
      return "true or false";
    case ConfigNode::Kind::kInt:
      return "an integer";
    case ConfigNode::Kind::kFloat:
      return "a number";
    case ConfigNode::Kind::kString:
      return "a string";
    case ConfigNode::Kind::kList:
      return "a list";
    case ConfigNode::Kind::kObject:
      return "an object";
  }
  return "";
}

std::vector<ConfigLeaf> config_leaves(const ConfigNode& root) {
  std::vector<ConfigLeaf> leaves;
  ConfigLeaf at;
  if (!root.members.empty()) collect_leaves(root, at, leaves);
  return leaves;
}

ConfigNode& config_at(ConfigNode& root, const ConfigLeaf& leaf) {
  ConfigNode* node = &root;
  for (const size_t step : leaf.steps) {
    node = node->kind == ConfigNode::Kind::kObject ? &node->members[step].second : &node->items[step];
  }
  return *node;
}

std::vector<ConfigNode> changed_values(const ConfigNode& value) {
  std::vector<ConfigNode> out;
  switch (value.kind) {
    case ConfigNode::Kind::kNull:
      out = {ConfigNode::of_int(7), ConfigNode::of_float(0.625), ConfigNode::of_bool(true),
             ConfigNode::of_string("changed")};
      break;
    case ConfigNode::Kind::kBool:
      out = {ConfigNode::of_bool(!value.boolean)};
      break;
    case ConfigNode::Kind::kInt: {
      const int64_t base = value.integer > INT64_MAX / 4 || value.integer < INT64_MIN / 4 ? 0 : value.integer;
      out = {ConfigNode::of_int(base + 1), ConfigNode::of_int(base * 2 + 3), ConfigNode::of_int(base - 1),
             ConfigNode::of_int(base / 16 + 1)};
      break;
    }
    case ConfigNode::Kind::kFloat:
      out = {ConfigNode::of_float(value.number * 1.25 + 0.03125), ConfigNode::of_float(value.number * 0.5 - 0.25),
             ConfigNode::of_float(value.number * 1e-3 + 1e-9), ConfigNode::of_float(value.number * 1e3 + 1)};
      break;
    case ConfigNode::Kind::kString:
      out = {ConfigNode::of_string(value.text + "_changed")};
      break;
    case ConfigNode::Kind::kList:
      if (value.items.empty()) {
        for (ConfigNode item : {ConfigNode::of_int(0), ConfigNode::of_string("changed")}) {
          ConfigNode list = value;
          list.items.push_back(std::move(item));
          out.push_back(std::move(list));
        }
        break;
      }
      for (const size_t i : {size_t{0}, value.items.size() - 1}) {
        for (ConfigNode& item : changed_values(value.items[i])) {
          ConfigNode list = value;
          list.items[i] = std::move(item);
          out.push_back(std::move(list));
          break;
        }
      }
      break;
    case ConfigNode::Kind::kObject: {
      ConfigNode object = value;
      object.members.emplace_back("changed", ConfigNode::of_int(1));
      out.push_back(std::move(object));
      break;
    }
  }
  std::erase(out, value);
  return out;
}

Result<ConfigNode> parse_config_tree(std::string_view text) { return from_json(FL_TRY(formats::parse_config(text))); }

Result<ConfigNode> config_tree_of_gguf(const formats::GgufFile& file) {
  ConfigNode root;
  root.kind = ConfigNode::Kind::kObject;
  for (const formats::GgufEntry& entry : file.entries()) {
    if (entry.key.starts_with("tokenizer.") || entry.key.starts_with("split.")) continue;
    if (!entry.value.children.empty())
      return invalid_data("GGUF key '" + std::string(entry.key) + "' is an array of arrays");
    ConfigNode node = entry.value.is_array() ? ConfigNode() : gguf_scalar(entry.value, 0);
    if (entry.value.is_array()) {
      node.kind = ConfigNode::Kind::kList;
      for (uint64_t i = 0; i < entry.value.count; ++i) node.items.push_back(gguf_scalar(entry.value, i));
    }
    root.members.emplace_back(std::string(entry.key), std::move(node));
  }
  return root;
}

Result<ConfigNode> config_tree_of_ggmf(const formats::Checkpoint& checkpoint) {
  ConfigNode root;
  root.kind = ConfigNode::Kind::kObject;
  root.members.emplace_back("model_type", ConfigNode::of_string("rwkv.cpp"));
  const std::pair<const char*, const char*> numbers[] = {
      {"vocab_size", "num_vocabulary"}, {"hidden_size", "width"}, {"num_hidden_layers", "num_layers"}};
  for (const auto& [key, name] : numbers) {
    const auto found = checkpoint.metadata().find(name);
    if (found == checkpoint.metadata().end()) return invalid_data("a ggmf file without " + std::string(name));
    root.members.emplace_back(key, ConfigNode::of_int(std::stoll(found->second)));
  }
  // Since version 5 the decay lies in heads: [heads, channels of one, 1].
  const formats::TensorRecord* decay = checkpoint.find("blocks.0.att.time_decay");
  if (decay != nullptr && decay->shape.size() == 3)
    root.members.emplace_back("num_attention_heads", ConfigNode::of_int(decay->shape[0]));
  return root;
}

}  // namespace firstlight::intake
