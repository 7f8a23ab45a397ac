// SPDX-License-Identifier: Apache-2.0
#include "adapt/embedding_config.h"

#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;
using request::Pooling;

constexpr size_t kMostBytes = size_t{1} << 20;

Result<Json> read_json(const fs::path& path) {
  return FL_TRY(parse_json(FL_TRY(read_text_file(path.string(), kMostBytes))).with_context(path.string()));
}

// Newer files name the mode, older ones have a flag for each; several modes at once would join their vectors.
Result<Pooling> pooling_of(const Json& config) {
  std::string mode;
  const Json named = config.value("pooling_mode", Json());
  if (named.is_string()) mode = named.get<std::string>();
  constexpr std::string_view kFlag = "pooling_mode_";
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with(kFlag) || !value.is_boolean() || !value.get<bool>()) continue;
    if (!mode.empty()) return unsupported("poolings " + mode + " and " + key.substr(kFlag.size()) + " at once");
    mode = key.substr(kFlag.size());
  }
  if (mode == "lasttoken") return Pooling::kLast;
  if (mode == "mean_tokens" || mode == "mean") return Pooling::kMean;
  if (mode == "cls_token" || mode == "cls") return Pooling::kFirst;
  return unsupported("pooling '" + mode.substr(0, 80) + "', one of lasttoken, mean and cls wanted");
}

// "sentence_transformers.models.Pooling" and "sentence_transformers.base.modules.pooling.Pooling" are a Pooling.
std::string class_of(const Json& module) {
  const Json type = module.value("type", Json());
  if (!type.is_string()) return "";
  const std::string name = type.get<std::string>();
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

Result<EmbeddingConfig> read_embedding_config(const std::string& path) {
  EmbeddingConfig config;
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  const fs::path list = folder / "modules.json";
  if (!fs::exists(list)) return config;
  config.source = list.string();
  config.normalise = false;
  const Json modules = FL_TRY(read_json(list));
  if (!modules.is_array()) return invalid_data(list.string() + ": an array of modules wanted");
  for (const Json& module : modules) {
    const std::string name = module.is_object() ? class_of(module) : "";
    if (name == "Transformer") continue;
    if (name == "Normalize") {
      config.normalise = true;
    } else if (name == "Pooling") {
      const Json place = module.value("path", Json("1_Pooling"));
      const std::string part = place.is_string() ? place.get<std::string>() : "";
      if (part.empty() || part.find("..") != std::string::npos || part.front() == '/') {
        return invalid_data(list.string() + ": the path of the pooling is no folder beside it");
      }
      const fs::path file = folder / part / "config.json";
      config.pooling = FL_TRY(pooling_of(FL_TRY(read_json(file))).with_context(file.string()));
    } else {
      return unsupported(list.string() + ": module '" + name.substr(0, 80) +
                         "', only Transformer, Pooling and Normalize are computed");
    }
  }
  return config;
}

}  // namespace firstlight::adapt
