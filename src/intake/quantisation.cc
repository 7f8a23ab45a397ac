// SPDX-License-Identifier: Apache-2.0
#include "intake/quantisation.h"

#include <algorithm>

#include "intake/config_tree.h"
#include "intake/quantisation_reader.h"

namespace firstlight::intake {
namespace {

using Kind = WeightScheme::Kind;
using Sharing = WeightScheme::Sharing;

// Where the checkpoint says how it is quantised, and the path of it in the config.
struct Place {
  const ConfigNode* node = nullptr;
  std::string path;
};

Place find_place(const ConfigNode& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (const ConfigNode* node = config.find(key)) return {node, key};
  }
  const ConfigNode* text = config.find("text_config");
  const ConfigNode* node =
      text == nullptr || text->kind != ConfigNode::Kind::kObject ? nullptr : text->find("quantization_config");
  return {node, "text_config.quantization_config"};
}

constexpr size_t kMostWarnings = 100;

void count_matches(const TensorTable& tensors, Quantisation& out) {
  std::set<std::string_view> modules;
  for (const auto& [name, info] : tensors.all()) {
    const size_t dot = name.rfind('.');
    if (dot != std::string::npos) modules.insert(std::string_view(name).substr(0, dot));
  }
  out.num_unconverted_modules = 0;
  const auto useless = [&](const NameList& list, int* num_matched, const std::string& as_what) {
    std::vector<bool> useful(list.all().size(), false);
    for (const std::string_view module : modules) {
      bool any = false;
      list.visit(module, [&](size_t i) {
        useful[i] = any = true;
        return true;
      });
      if (num_matched != nullptr) *num_matched += any ? 1 : 0;
    }
    for (size_t i = 0; i < useful.size(); ++i) {
      if (useful[i] || list.all()[i].kind() == NamePattern::Kind::kClass) continue;
      if (out.warnings.size() == kMostWarnings) out.warnings.emplace_back("further names match no module either");
      if (out.warnings.size() > kMostWarnings) return;
      out.warnings.push_back("quantization_config names '" + list.all()[i].text() + "' as " + as_what +
                             ", which matches no module");
    }
  };
  useless(out.unconverted, &out.num_unconverted_modules, "not converted");
  for (const Quantisation::Group& group : out.groups) useless(group.targets, nullptr, group.scheme.describe());
}

std::string describe_targets(const NameList& list) {
  const std::vector<NamePattern>& targets = list.all();
  if (targets.empty()) return "";
  if (targets.size() <= 4) {
    std::string text;
    for (const NamePattern& target : targets) text += (text.empty() ? " for " : ", ") + target.text();
    return text;
  }
  uint64_t hash = 14695981039346656037u;  // FNV-1a: the graph's text tells two lists apart
  for (const NamePattern& target : targets) {
    for (const char c : target.text() + ",") hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  return " for " + std::to_string(targets.size()) + " names (" + std::to_string(hash % 1000000007) + ")";
}

}  // namespace

std::string WeightScheme::describe() const {
  std::string text;
  switch (kind) {
    case Kind::kFp8:
      text = "fp8 e4m3";
      break;
    case Kind::kMxfp4:
      text = "mxfp4";
      break;
    case Kind::kNvfp4:
      text = "nvfp4";
      break;
    case Kind::kInt:
      text = "int" + std::to_string(bits);
      break;
    case Kind::kGptq:
      text = std::string("gptq ") + (zero_minus_one ? "" : "v2 ") + std::to_string(bits) + " bits";
      break;
    case Kind::kAwq:
      text = "awq " + std::to_string(bits) + " bits";
      break;
  }
  if (kind == Kind::kMxfp4 || kind == Kind::kNvfp4) return text;
  if (sharing == Sharing::kTensor) text += ", per tensor";
  if (sharing == Sharing::kChannel) text += ", per channel";
  if (sharing == Sharing::kBlock) {
    text += block[0] == 1 ? ", groups of " + std::to_string(block[1])
                          : ", blocks of " + std::to_string(block[0]) + " x " + std::to_string(block[1]);
  }
  if (kind != Kind::kFp8) text += symmetric ? ", symmetric" : ", zero points";
  if (ordered) text += ", ordered columns";
  return text;
}

bool Quantisation::is_unconverted(std::string_view module) const { return unconverted.matches(module); }

std::vector<std::string> Quantisation::entries_for(std::string_view module) const {
  std::vector<std::string> entries;
  unconverted.visit(module, [&](size_t i) {
    entries.push_back(unconverted.all()[i].text());
    return true;
  });
  return entries;
}

const WeightScheme* Quantisation::scheme_for(std::string_view module) const {
  if (is_unconverted(module)) return nullptr;
  const WeightScheme* found = nullptr;
  int rank = 4;  // names before globs, then regular expressions, then classes
  for (const Group& group : groups) {
    if (group.targets.empty() && found == nullptr) found = &group.scheme;
    group.targets.visit(module, [&](size_t i) {
      const int its_rank = static_cast<int>(group.targets.all()[i].kind());
      if (its_rank < rank) found = &group.scheme;
      rank = std::min(rank, its_rank);
      return rank > 0;
    });
  }
  return found;
}

std::string Quantisation::summary() const {
  if (num_unconverted_modules >= 0) return std::to_string(num_unconverted_modules) + " modules";
  std::string entries;
  for (const NamePattern& entry : unconverted.all()) entries += (entries.empty() ? "" : ", ") + entry.text();
  return entries;
}

Result<Quantisation> resolve_quantisation(const QuantisationInput& input, ConfigRecord& record) {
  Place place = find_place(input.config);
  if (place.node != nullptr && place.node->kind == ConfigNode::Kind::kNull) {
    record.touched.insert(place.path);
    place.node = nullptr;
  }
  if (place.node == nullptr && input.side_file == nullptr) return Quantisation{};
  const ConfigNode* side = input.side_file == nullptr ? nullptr : input.side_file->find("quantization");
  if (place.node == nullptr) {
    if (side == nullptr || side->kind != ConfigNode::Kind::kObject) {
      return invalid_data("hf_quant_config.json: wanted an object 'quantization'");
    }
    place = {side, "hf_quant_config.json"};
  } else if (place.node->kind != ConfigNode::Kind::kObject) {
    return invalid_data("config key '" + place.path + "': found " + place.node->to_string() + ", wanted an object");
  }
  Quantisation out = FL_TRY(read_quantisation(*place.node, place.path, input.vendor_activations, record));
  for (const Quantisation::Group& group : out.groups) {
    out.description +=
        (out.description.empty() ? "" : "; ") + group.scheme.describe() + describe_targets(group.targets);
  }
  out.vendor_activations = input.vendor_activations;
  if (input.tensors.is_complete()) count_matches(input.tensors, out);
  return out;
}

}  // namespace firstlight::intake
