// SPDX-License-Identifier: Apache-2.0
// A comparison as JSON and as a table for a terminal.
#include <cstdio>

#include "align/compare.h"
#include "base/json.h"

namespace firstlight::align {
namespace {

std::string format(const char* pattern, auto... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

Json distance_json(const Distance& distance, bool integer) {
  if (integer) return {{"mismatch", distance.mismatch}};
  Json ulps = Json::array();
  for (const int64_t count : distance.ulps) ulps.push_back(count);
  while (!ulps.empty() && ulps.back() == 0) ulps.erase(ulps.size() - 1);
  return {{"rel_l2", distance.rel_l2},       {"max_abs", distance.max_abs},  {"cosine", distance.cosine},
          {"worst_row", distance.worst_row}, {"row", distance.worst_row_id}, {"estimated", distance.estimated},
          {"ulps", std::move(ulps)}};
}

Json value_json(const ValueComparison& value) {
  Json json = {{"name", value.info.name}, {"layer", value.info.layer}, {"op", value.info.op}};
  json.update(distance_json(value.found, value.info.is_integer));
  if (value.rounding) json["rounding"] = distance_json(*value.rounding, value.info.is_integer);
  if (value.beyond) json["beyond_rounding"] = distance_json(*value.beyond, value.info.is_integer);
  json["allowed"] = value.allowed;
  json["passed"] = value.passed;
  return json;
}

std::string value_line(const ValueComparison& value) {
  const Distance& found = value.found;
  const double distance = value.info.is_integer ? found.mismatch : found.rel_l2;
  std::string line =
      format("%-48s %-12s %9.2e %9.2e", value.info.name.c_str(), value.info.op.c_str(), distance, value.allowed);
  if (value.rounding) {
    line += format(" %9.2e", value.info.is_integer ? value.rounding->mismatch : value.rounding->rel_l2);
  }
  if (value.info.is_integer) return line + format(" %30s %s\n", "rows that differ", value.passed ? "" : " WRONG");
  line += format(" %9.2e %11.8f %8lld%s", found.max_abs, found.cosine, static_cast<long long>(found.worst_row_id),
                 value.passed ? "" : " WRONG");
  return line + (found.finite ? "\n" : " (values that are not finite)\n");
}

}  // namespace

Json comparison_json(const Comparison& comparison) {
  Json values = Json::array(), growth = Json::array(), sights = Json::object();
  for (const ValueComparison& value : comparison.values) values.push_back(value_json(value));
  for (const Growth& layer : comparison.growth) {
    growth.push_back({{"layer", layer.layer}, {"rel_l2", layer.rel_l2}, {"rounding", layer.rounding}});
  }
  for (const auto& [kind, sight] : comparison.sights) sights[kind] = {{"sees", sight.sees}, {"why", sight.why}};
  const LogitsComparison& logits = comparison.logits;
  Json first;
  if (comparison.first_wrong >= 0) first = value_json(comparison.values[static_cast<size_t>(comparison.first_wrong)]);
  return {{"passed", comparison.passed},
          {"first_wrong", std::move(first)},
          {"prompts", comparison.prompts},
          {"layers", std::move(values)},
          {"logits",
           {{"rows", logits.rows},
            {"top1", logits.top1},
            {"top5", logits.top5},
            {"kl_at_least", logits.kl_bound},
            {"kl_worst", logits.kl_worst},
            {"kl_rows", logits.kl_rows},
            {"greedy_equal", logits.greedy_equal}}},
          {"growth", std::move(growth)},
          {"growth_per_layer", comparison.growth_per_layer},
          {"rows_left_out", comparison.rows_left_out},
          {"other_shapes", comparison.other_shapes},
          {"not_compared", comparison.not_compared},
          {"sees", std::move(sights)}};
}

std::string comparison_text(const Comparison& comparison, bool all) {
  const bool three = !comparison.values.empty() && comparison.values.back().rounding.has_value();
  std::string out = format("%-48s %-12s %9s %9s%s %9s %11s %8s\n", "value", "operator", "rel L2", "allowed",
                           three ? "  rounding" : "", "max abs", "cosine", "row");
  for (const ValueComparison& value : comparison.values) {
    if (all || value.info.is_layer_output || !value.passed || value.info.name == "logits") out += value_line(value);
  }
  const LogitsComparison& logits = comparison.logits;
  if (logits.rows > 0) {
    out += format("logits: best token equal in %.1f %% of %lld rows, best five in %.1f %%; KL at least %.2e",
                  100 * logits.top1, static_cast<long long>(logits.rows), 100 * logits.top5, logits.kl_bound);
    if (logits.kl_rows > 0)
      out += format(", %.2e in the worst of %lld whole rows", logits.kl_worst, static_cast<long long>(logits.kl_rows));
    out += logits.greedy_equal ? "; greedy tokens equal\n" : "; greedy tokens DIFFER\n";
  }
  out += format("%zu values of %lld prompts compared, %zu names in one of the two alone", comparison.values.size(),
                static_cast<long long>(comparison.prompts), comparison.not_compared.size());
  if (comparison.rows_left_out > 0) {
    out += format("; %lld rows left out behind a routing decision that turned",
                  static_cast<long long>(comparison.rows_left_out));
  }
  out += format("; error grows by %.3f per layer\n", comparison.growth_per_layer);
  for (const std::string& line : comparison.other_shapes) out += "  not compared: " + line + "\n";
  for (const auto& [kind, sight] : comparison.sights) {
    out += "  faults of " + kind + (sight.sees ? " are seen: " : " are not seen: ") + sight.why + "\n";
  }
  if (comparison.first_wrong < 0) return out + "within what rounding explains\n";
  return out + "first wrong: " + comparison.values[static_cast<size_t>(comparison.first_wrong)].info.name + "\n";
}

}  // namespace firstlight::align
