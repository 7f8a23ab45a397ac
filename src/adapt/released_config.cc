// SPDX-License-Identifier: Apache-2.0
#include "adapt/released_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/json.h"

namespace firstlight::adapt {
namespace {

using intake::ConfigNode;
using Kind = ConfigNode::Kind;

Json json_of(const ConfigNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return nullptr;
    case Kind::kBool:
      return node.boolean;
    case Kind::kInt:
      return node.integer;
    case Kind::kFloat:
      // JSON has no word for it: the reference library's own way around that.
      if (!std::isfinite(node.number)) {
        return {{"__float__", std::isnan(node.number) ? "NaN" : node.number > 0 ? "Infinity" : "-Infinity"}};
      }
      return node.number;
    case Kind::kString:
      return node.text;
    case Kind::kList: {
      Json list = Json::array();
      for (const ConfigNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case Kind::kObject: {
      Json object = Json::object();
      for (const auto& [key, value] : node.members) object[key] = json_of(value);
      return object;
    }
  }
  return nullptr;
}

// Llama 3's scaling: the divisor of a frequency that turns `turns` times over the original length.
double llama3_divisor(double turns, double factor, double low, double high) {
  if (turns < low) return factor;
  if (turns > high) return 1;
  const double smooth = (turns - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}

// The parameters of the released Llama 3 models, if they give these divisors.
std::optional<Json> llama3_parameters(const Json& rope) {
  constexpr double kLow = 1, kHigh = 4;
  constexpr int64_t kOriginal = 8192;
  const auto divisors = rope.at("divisors").get<std::vector<double>>();
  const double theta = rope.value("rope_theta", 10000.0);
  const double factor = *std::max_element(divisors.begin(), divisors.end());
  const auto dim = static_cast<double>(2 * divisors.size());
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double frequency = std::pow(theta, -2 * static_cast<double>(i) / dim);
    const double turns = static_cast<double>(kOriginal) * frequency / (2 * std::numbers::pi);
    const double wanted = llama3_divisor(turns, factor, kLow, kHigh);
    if (!(std::abs(divisors[i] - wanted) <= 1e-5 * wanted)) return std::nullopt;
  }
  return Json{{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", kLow},
              {"high_freq_factor", kHigh},
              {"original_max_position_embeddings", kOriginal}};
}

// rope_scaling of one object of rotary parameters; null: none.
Json scaling_of(Json rope, std::vector<std::string>& warnings) {
  const std::string type = rope.value("rope_type", "default");
  if (type == "default") return nullptr;
  if (type == "divisors") {
    if (const auto llama3 = llama3_parameters(rope)) return *llama3;
    warnings.emplace_back(
        "config.json: no llama3 parameters give the rotary divisors of this file; written as rope_type 'divisors', "
        "which other programs do not know");
  }
  rope.erase("rope_theta");
  rope.erase("partial_rotary_factor");
  return rope;
}

// rope_parameters in the older spelling.
void spell_rope(Json& config, std::vector<std::string>& warnings) {
  if (!config.contains("rope_parameters")) return;
  Json rope = config["rope_parameters"];
  const bool by_kind = rope.contains("full_attention");
  if (by_kind && rope["full_attention"].value("rope_type", "") == "proportional") return;  // never had another spelling
  config.erase("rope_parameters");
  if (by_kind) {
    if (rope["sliding_attention"].contains("rope_theta")) {
      config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
    }
    const Json full = rope["full_attention"];
    rope = full;
  }
  config["rope_theta"] = rope.contains("rope_theta") ? rope["rope_theta"] : Json(10000.0);
  if (rope.contains("partial_rotary_factor")) config["partial_rotary_factor"] = rope["partial_rotary_factor"];
  if (Json scaling = scaling_of(rope, warnings); !scaling.is_null()) config["rope_scaling"] = std::move(scaling);
}

void add_tokens(Json& config, const intake::TokenFacts& tokens) {
  if (tokens.bos) config["bos_token_id"] = *tokens.bos;
  if (tokens.eos.size() == 1) {
    config["eos_token_id"] = tokens.eos.begin()->first;
  } else if (!tokens.eos.empty()) {
    for (const auto& [id, source] : tokens.eos) config["eos_token_id"].push_back(id);
  }
  if (tokens.pad) config["pad_token_id"] = *tokens.pad;
}

std::string_view torch_name(tensor::DType dtype) {
  return dtype == tensor::DType::kBF16 ? "bfloat16" : dtype == tensor::DType::kF16 ? "float16" : "float32";
}

}  // namespace

std::string config_json_text(const intake::ConfigNode& config) { return dump_json(json_of(config), 2) + "\n"; }

std::string released_config_text(const intake::ReleasedForm& form, tensor::DType dtype, bool tied,
                                 std::vector<std::string>& warnings) {
  const Json derived = json_of(form.config);
  Json config = Json::object();
  for (const char* key : {"architectures", "model_type"}) {
    if (derived.contains(key)) config[key] = derived[key];
  }
  config.update(derived);
  if (tied) config["tie_word_embeddings"] = true;
  spell_rope(config, warnings);
  add_tokens(config, form.model.tokens);
  config["torch_dtype"] = torch_name(dtype);
  return dump_json(config, 2) + "\n";
}

std::string generation_config_text(const intake::TokenFacts& tokens) {
  Json config = Json::object();
  add_tokens(config, tokens);
  return dump_json(config, 2) + "\n";
}

}  // namespace firstlight::adapt
