// SPDX-License-Identifier: Apache-2.0
#include "gates/targets.h"

#include <cmath>

#include "base/file_map.h"
#include "base/json.h"
#include "base/toml.h"

namespace firstlight::gates {
namespace {

Status refuse(const std::string& where, const std::string& key, const Json& value, const std::string& wanted) {
  return invalid_data(where + "'" + key + "' is " + dump_json(value) + ", " + wanted + " wanted");
}

Status read_count(const std::string& where, const std::string& key, const Json& value, int64_t least, int64_t most,
                  int64_t& out) {
  const bool fits = value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
  if (!fits)
    return refuse(where, key, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  out = value.get<int64_t>();
  return ok_status();
}

Status read_amount(const std::string& where, const std::string& key, const Json& value, std::optional<double>& out) {
  const bool fits = value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
  if (!fits) return refuse(where, key, value, "a number above 0");
  out = value.get<double>();
  return ok_status();
}

constexpr int64_t kMostTokens = int64_t{1} << 28;  // lengths add up to a position, an int32

Result<TargetPoint> read_point(const Json& json, size_t index) {
  const std::string where = "point " + std::to_string(index + 1) + ": ";
  if (!json.is_object()) return refuse("", "point", json, "tables [[point]]");
  TargetPoint point;
  for (const auto& [key, value] : json.items()) {
    if (key == "prompt") {
      FL_TRY(read_count(where, key, value, 1, kMostTokens, point.prompt));
    } else if (key == "depth") {
      FL_TRY(read_count(where, key, value, 0, kMostTokens, point.depth));
    } else if (key == "batch") {
      FL_TRY(read_count(where, key, value, 1, 4096, point.batch));
    } else if (key == "ttft_s") {
      FL_TRY(read_amount(where, key, value, point.ttft_s));
    } else if (key == "prompt_tps") {
      FL_TRY(read_amount(where, key, value, point.prompt_tps));
    } else if (key == "decode_tps") {
      FL_TRY(read_amount(where, key, value, point.decode_tps));
    } else {
      return refuse(where, key, value, "prompt, depth, batch, ttft_s, prompt_tps or decode_tps");
    }
  }
  if (!point.ttft_s && !point.prompt_tps && !point.decode_tps) {
    return invalid_data(where + "nothing is wanted: ttft_s, prompt_tps or decode_tps missing");
  }
  return point;
}

}  // namespace

Result<Targets> parse_targets(std::string_view toml) {
  const Json json = FL_TRY(parse_toml(toml));
  Targets targets;
  for (const auto& [key, value] : json.items()) {
    if (key == "rounds") {
      FL_TRY(read_count("", key, value, 1, 100, targets.rounds));
    } else if (key == "decode_tokens") {
      FL_TRY(read_count("", key, value, 1, 1 << 20, targets.decode_tokens));
    } else if (key == "memory_mb") {
      FL_TRY(read_amount("", key, value, targets.memory_mb));
    } else if (key == "point" && value.is_array()) {
      for (const Json& point : value) targets.points.push_back(FL_TRY(read_point(point, targets.points.size())));
    } else {
      return refuse("", key, value, "rounds, decode_tokens, memory_mb or tables [[point]]");
    }
  }
  if (targets.points.empty() && !targets.memory_mb)
    return invalid_data("nothing is wanted: no [[point]], no memory_mb");
  return targets;
}

Result<Targets> read_targets(const std::string& path) {
  return parse_targets(FL_TRY(read_text_file(path))).with_context(path);
}

}  // namespace firstlight::gates
