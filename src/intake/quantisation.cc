// SPDX-License-Identifier: Apache-2.0
#include "intake/quantisation.h"

#include <set>

#include "intake/config_tree.h"

namespace firstlight::intake {
namespace {

constexpr std::string_view kKey = "quantization_config";

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

class Resolver {
 public:
  Resolver(const ConfigNode& node, const TensorTable& tensors, ConfigRecord& record)
      : node_(node), tensors_(tensors), record_(record) {}

  Result<Quantisation> run() {
    const ConfigNode* method = read("quant_method");
    if (method == nullptr || method->kind != ConfigNode::Kind::kString) {
      return unsupported("quantization_config has no quant_method; known are fp8 (with weight_block_size) and mxfp4");
    }
    if (method->text == "fp8") {
      FL_TRY(read_fp8());
    } else if (method->text == "mxfp4") {
      out_.method = Quantisation::Method::kMxfp4;
      out_.description = "mxfp4";
    } else {
      return unsupported("quantization_config.quant_method: found \"" + method->text +
                         "\"; known are fp8 (with weight_block_size) and mxfp4");
    }
    FL_TRY(read_unconverted());
    return std::move(out_);
  }

 private:
  const ConfigNode* read(std::string_view key) {
    const ConfigNode* node = node_.find(key);
    if (node != nullptr && node->is_leaf()) record_.touched.insert(std::string(kKey) + "." + std::string(key));
    return node == nullptr || node->kind == ConfigNode::Kind::kNull ? nullptr : node;
  }

  // A key that must have one of these values where it is present.
  Status expect(std::string_view key, std::initializer_list<std::string_view> values) {
    const ConfigNode* node = read(key);
    if (node == nullptr) return ok_status();
    std::string wanted;
    for (const std::string_view value : values) {
      if (node->kind == ConfigNode::Kind::kString && node->text == value) return ok_status();
      wanted += (wanted.empty() ? "\"" : " or \"") + std::string(value) + "\"";
    }
    return unsupported("quantization_config." + std::string(key) + ": found " + node->to_string() + ", wanted " +
                       wanted);
  }

  Status read_fp8() {
    out_.method = Quantisation::Method::kFp8Block;
    FL_TRY(expect("fmt", {"e4m3", "float8_e4m3fn"}));
    // Activations stay in float32 here, which a dynamic scheme only approximates; a static one carries tensors of its
    // own.
    FL_TRY(expect("activation_scheme", {"dynamic"}));
    FL_TRY(expect("scale_fmt", {"ue8m0", "float"}));
    const ConfigNode* block = read("weight_block_size");
    if (block == nullptr) {
      return unsupported(
          "quantization_config: fp8 without weight_block_size (scales per tensor or channel) is not known");
    }
    for (const ConfigNode& size : block->items) {
      if (size.kind == ConfigNode::Kind::kInt && size.integer > 0 && size.integer < (1 << 20))
        out_.block.push_back(size.integer);
    }
    if (block->items.size() != 2 || out_.block.size() != 2) {
      return invalid_data("quantization_config.weight_block_size: found " + block->to_string() + ", wanted two sizes");
    }
    out_.description = "fp8 e4m3, blocks of " + std::to_string(out_.block[0]) + " x " + std::to_string(out_.block[1]);
    return ok_status();
  }

  Status read_unconverted() {
    for (const std::string_view key : {"modules_to_not_convert", "ignored_layers"}) {
      const ConfigNode* list = read(key);
      if (list == nullptr) continue;
      for (const ConfigNode& item : list->items) {
        if (list->kind != ConfigNode::Kind::kList || item.kind != ConfigNode::Kind::kString) {
          return invalid_data("quantization_config." + std::string(key) + ": found " + item.to_string() +
                              ", wanted names");
        }
        if (item.text.find('*') == std::string::npos) {
          out_.unconverted.insert(item.text);
        } else {
          out_.unconverted_patterns.push_back(item.text);
        }
      }
    }
    return tensors_.is_complete() ? count_matches() : ok_status();
  }

  Status count_matches() {
    std::set<std::string_view> modules;
    for (const auto& [name, info] : tensors_.all()) {
      const size_t dot = name.rfind('.');
      if (dot != std::string::npos) modules.insert(std::string_view(name).substr(0, dot));
    }
    out_.num_unconverted_modules = 0;
    std::set<std::string, std::less<>> useful;
    for (const std::string_view module : modules) {
      const auto entries = out_.entries_for(module);
      if (!entries.empty()) ++out_.num_unconverted_modules;
      for (const std::string& entry : entries) useful.insert(entry);
    }
    warn_about(out_.unconverted_patterns, useful);
    warn_about({out_.unconverted.begin(), out_.unconverted.end()}, useful);
    return ok_status();
  }

  void warn_about(const std::vector<std::string>& entries, const std::set<std::string, std::less<>>& useful) {
    for (const std::string& entry : entries) {
      if (useful.contains(entry)) continue;
      out_.warnings.push_back("quantization_config names '" + entry + "' as not converted, which matches no module");
    }
  }

  const ConfigNode& node_;
  const TensorTable& tensors_;
  ConfigRecord& record_;
  Quantisation out_;
};

}  // namespace

std::vector<std::string> Quantisation::entries_for(std::string_view module) const {
  std::vector<std::string> entries;
  for (size_t end = module.size(); end != std::string_view::npos && end > 0;
       end = end == 0 ? std::string_view::npos : module.rfind('.', end - 1)) {
    const std::string_view part = module.substr(0, end);
    if (const auto it = unconverted.find(part); it != unconverted.end()) entries.push_back(*it);
    for (const std::string& pattern : unconverted_patterns) {
      if (matches_glob(pattern, part)) entries.push_back(pattern);
    }
  }
  return entries;
}

std::string Quantisation::summary() const {
  if (num_unconverted_modules >= 0) return std::to_string(num_unconverted_modules) + " modules";
  std::string entries;
  for (const std::string& entry : unconverted) entries += (entries.empty() ? "" : ", ") + entry;
  for (const std::string& entry : unconverted_patterns) entries += (entries.empty() ? "" : ", ") + entry;
  return entries;
}

Result<Quantisation> resolve_quantisation(const ConfigNode& config, const TensorTable& tensors, ConfigRecord& record) {
  const ConfigNode* node = config.find(kKey);
  if (node == nullptr || node->kind == ConfigNode::Kind::kNull) {
    if (node != nullptr) record.touched.insert(std::string(kKey));
    return Quantisation{};
  }
  if (node->kind != ConfigNode::Kind::kObject) {
    return invalid_data("config key 'quantization_config': found " + node->to_string() + ", wanted an object");
  }
  return Resolver(*node, tensors, record).run();
}

}  // namespace firstlight::intake
