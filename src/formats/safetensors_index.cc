// SPDX-License-Identifier: Apache-2.0
// *.safetensors.index.json: {"metadata": {"total_size": n}, "weight_map": {tensor: file, …}}.
#include <simdjson.h>

#include "formats/safetensors.h"

namespace firstlight::formats {
namespace {

namespace dom = simdjson::dom;

// A shard lies beside its index: anything that could lead elsewhere is refused.
Status check_shard_name(std::string_view tensor, std::string_view file) {
  const bool is_plain = !file.empty() && file != "." && file != ".." && file.find('/') == std::string_view::npos &&
                        file.find('\0') == std::string_view::npos;
  if (is_plain) return ok_status();
  return invalid_data("weight_map: tensor " + quote_name(tensor) + " in file " + quote_name(file) +
                      ": a plain file name beside the index wanted");
}

Status parse_weight_map(dom::object object, StringMap& weight_map) {
  for (const dom::key_value_pair field : object) {
    std::string_view file;
    if (field.value.get(file) != simdjson::SUCCESS) {
      return invalid_data("weight_map: tensor " + quote_name(field.key) + ": a file name wanted");
    }
    FL_TRY(check_shard_name(field.key, file));
    if (!weight_map.emplace(field.key, file).second) {
      return invalid_data("weight_map: tensor " + quote_name(field.key) + " occurs twice");
    }
  }
  return ok_status();
}

// Written as an integer by most tools, as 1.2e9 by some.
std::optional<uint64_t> find_total_size(dom::object root) {
  const auto element = root["metadata"]["total_size"];
  uint64_t integer = 0;
  if (element.get(integer) == simdjson::SUCCESS) return integer;
  double number = 0;
  if (element.get(number) == simdjson::SUCCESS && number >= 0 && number < 1e18) return static_cast<uint64_t>(number);
  return std::nullopt;
}

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text) {
  dom::parser parser;
  dom::object root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root); error != simdjson::SUCCESS) {
    return invalid_data(std::string("index: ") + simdjson::error_message(error));
  }
  dom::object weight_map;
  if (root["weight_map"].get(weight_map) != simdjson::SUCCESS) {
    return invalid_data("index: no object \"weight_map\"");
  }
  SafetensorsIndex index;
  FL_TRY(parse_weight_map(weight_map, index.weight_map));
  index.total_size = find_total_size(root);
  return index;
}

}  // namespace firstlight::formats
