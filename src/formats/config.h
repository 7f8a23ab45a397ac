// SPDX-License-Identifier: Apache-2.0
// config.json and its neighbours: text to Json, with limits. What the keys mean is for intake. Includes base/json.h, so
// this is a header for .cc files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "formats/hf_directory.h"

namespace firstlight::formats {

// Parses a config: one JSON object, at most 16 MiB, nested at most 64 deep, at most 20,000 keys to an object. Beyond
// JSON it takes the NaN, Infinity and -Infinity that Python writes (released configs have them) as float values;
// dump_json prints those as null. Errors: kInvalidData; a key that occurs twice is one, since the loser would be lost
// silently.
Result<Json> parse_config(std::string_view text);

// The same for a file; messages begin with its path. Errors also kNotFound.
Result<Json> read_config(const std::string& path);

// The configs of a directory.
struct ModelConfigs {
  Json config;                            // config.json, required
  std::optional<Json> generation_config;  // generation_config.json
  // How the weights are quantised: config.json's "quantization_config" (as it is in `config`, not removed there), else
  // its "compression_config", else hf_quant_config.json. `quantization_source` says which: the key or the file's path.
  std::optional<Json> quantization_config;
  std::string quantization_source;
};
Result<ModelConfigs> read_model_configs(const HfDirectory& directory);

}  // namespace firstlight::formats
