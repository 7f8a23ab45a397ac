// SPDX-License-Identifier: Apache-2.0
#include "gates/report_html.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

Gate gate(const std::string& level, const Json& evidence, bool passed = true) {
  return {.level = level, .passed = passed, .seconds = 1, .summary = "s <i>", .evidence = dump_json(evidence)};
}

std::string page(std::vector<Gate> gates) {
  AdaptResult result;
  result.gates = std::move(gates);
  result.passed = result.gates.back().passed;
  return report_html("m", result, "");
}

TEST(ReportHtml, NeedsNothingFromOutside) {
  const std::string html = page({gate("intake", {{"architecture", "<llama>"}, {"spec", "llama.lua"}})});
  for (const char* word : {"<script", "<link", "src=", "url(", "http:", "https:", "<i>", "<llama>"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  for (const char* word : {"prefers-color-scheme:dark", "name=\"viewport\"", "&lt;llama&gt;", "All gates are open."})
    EXPECT_NE(html.find(word), std::string::npos) << word;
}

TEST(ReportHtml, ShowsWhatEachGateFound) {
  const Json row = {{"position", 3}, {"rel_l2", 0.01}, {"kl", 1e-4}};
  Json rows = Json::array();
  for (int i = 0; i < 30; ++i) rows.push_back(row);
  const Json path = {
      {"path", "in pieces"}, {"passed", false},           {"rows", 30}, {"rel_l2", 0.5}, {"allowed_rel_l2", 0.1},
      {"perplexity", 12.5},  {"wanted_perplexity", 12.25}};
  const Json model = {{"baseline", "reference backend"},
                      {"prompts", {{{"name", "a text"}, {"paths", {path}}, {"row_list", rows}, {"ulps", {5, 6, 7}}}}},
                      {"horizons", {{{"what", "window of 3 tokens"}, {"length", 3}, {"passed", true}}}},
                      {"left_out", {"run of 512 tokens: too long"}},
                      {"sees", {{"spec", {{"sees", false}, {"why", "both run it"}}}}}};
  const Json value = {{"value", "model.layers.0"}, {"rel_l2", 0.001}, {"allowed", 0.01}, {"rounding", 0.002}};
  const Json layer = {{"kinds",
                       {{{"layer", "model.layers.0"},
                         {"stands_for", {"a", "b"}},
                         {"modes", {{{"mode", "prefill"}, {"passed", true}, {"values", {value}}}}}}}}};
  const Json op = {
      {"kernels", {{{"op", "linear"}, {"kernel", "linear_q4"}, {"worst_of_bound", 0.25}, {"passed", true}}}},
      {"not_judged", {{{"kernel", "other"}, {"why", "never reached"}}}}};
  const Json figure = {{"what", "decode_tps"}, {"found", 41.5},  {"share", 0.4},     {"wanted_share", 0.2},
                       {"judged", true},       {"passed", true}, {"bound", "memory"}};
  const Json performance = {{"judged_by", "share of the measured roof"},
                            {"points", {{{"prompt", 512}, {"depth", 0}, {"batch", 1}, {"figures", {figure}}}}},
                            {"roof", {{"read_gbps", 40.5}}}};
  const std::string html =
      page({gate("operator", op), gate("layer", layer), gate("performance", performance), gate("model", model, false)});
  for (const char* word : {"in pieces", "12.500 (12.250)", "window of 3 tokens", "run of 512 tokens: too long",
                           "both run it", "linear_q4", "never reached", "model.layers.0", "token by token",
                           "41.5 tokens/s, 40 % of the roof", "reading 40.5 GB/s", "A gate is closed."})
    EXPECT_NE(html.find(word), std::string::npos) << word;
}

TEST(ReportHtml, EvidenceOfAnotherShapeIsNoTrouble) {
  for (const Json& evidence :
       {Json(), Json::array({1}), Json{{"prompts", 4}}, Json{{"prompts", {4, "x", {{"paths", {1}}}}}},
        Json{{"kinds", {3}}, {"kernels", {"x"}}, {"points", {7}}, {"roof", 3}, {"sees", {{"spec", 1}}}}}) {
    for (const char* level : {"intake", "operator", "layer", "model", "performance", "answer"})
      EXPECT_NE(page({gate(level, evidence)}).find("</html>"), std::string::npos);
  }
  Gate broken = gate("model", {});
  broken.evidence = "{";
  EXPECT_NE(page({broken}).find("</html>"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::gates
