// SPDX-License-Identifier: Apache-2.0
#include "gates/gates.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

GateOptions options_for(catalog::Backend backend, const std::string& baseline = "") {
  GateOptions options{.baseline = baseline};
  options.bring_up = adapt::quick_options(backend);
  options.levels = {Level::kModel};
  return options;
}

AdaptResult run(const std::string& path, const GateOptions& options) {
  auto result = run_gates(path, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(*result);
}

std::vector<std::string> levels(const AdaptResult& result) {
  std::vector<std::string> names;
  for (const Gate& gate : result.gates) names.push_back(gate.level);
  return names;
}

Json evidence(const AdaptResult& result, const std::string& level) {
  for (const Gate& gate : result.gates) {
    if (gate.level == level) return Json::parse(gate.evidence);
  }
  ADD_FAILURE() << "no gate " << level;
  return {};
}

// All gates but the last are open, the last is closed and is `level`.
void expect_closed_at(const AdaptResult& result, const std::string& level) {
  EXPECT_FALSE(result.passed);
  ASSERT_FALSE(result.gates.empty());
  EXPECT_EQ(result.gates.back().level, level);
  EXPECT_FALSE(result.gates.back().passed);
  for (size_t i = 0; i + 1 < result.gates.size(); ++i) EXPECT_TRUE(result.gates[i].passed) << result.gates[i].level;
}

TEST(Gates, OpenOneAfterTheOther) {
  for (const auto backend : {catalog::Backend::kReference, catalog::Backend::kCpu}) {
    std::vector<std::string> told;
    GateOptions options = options_for(backend);
    options.levels = {Level::kOperator, Level::kLayer, Level::kModel};
    options.gate_done = [&](const Gate& gate) { told.push_back(gate.level); };
    const AdaptResult result = run(adapt::golden_path(), options);
    EXPECT_TRUE(result.passed);
    EXPECT_EQ(levels(result),
              (std::vector<std::string>{"intake", "coverage", "plan", "load", "operator", "layer", "model"}));
    EXPECT_EQ(told, levels(result));
    ASSERT_NE(result.loaded, nullptr);
    EXPECT_NE(result.loaded->executor, nullptr);
    EXPECT_EQ(result.golden.origin, "reference backend");
    ASSERT_EQ(result.golden.prompts.size(), 1u);
    EXPECT_EQ(result.golden.prompts[0].rows.size(), static_cast<size_t>(result.golden.prompts[0].num_prompt) + 8);
    EXPECT_EQ(evidence(result, "intake")["architecture"], "llama");
    EXPECT_FALSE(evidence(result, "coverage")["config"]["bound"].empty());
    EXPECT_EQ(evidence(result, "coverage")["tensors"]["bound"], 21);
    EXPECT_GE(evidence(result, "plan")["arena_bytes"], evidence(result, "plan")["lower_bound_bytes"]);
    EXPECT_EQ(evidence(result, "load")["threads"], 1);
    EXPECT_LE(evidence(result, "model")["worst_rel_l2"], evidence(result, "model")["bound_rel_l2"]);
    EXPECT_GT(evidence(result, "model")["rows"], 100);
    for (const Gate& gate : result.gates) EXPECT_FALSE(gate.summary.empty()) << gate.level;
  }
}

std::string pack_path(const std::string& name) {
  return std::string(FL_SOURCE_DIR) + "/tests/golden/packs/" + name + ".transformers";
}

TEST(Gates, ARecordingIsABaseline) {
  const AdaptResult result = run(adapt::golden_path(), options_for(catalog::Backend::kCpu, pack_path("llama")));
  EXPECT_TRUE(result.passed);
  EXPECT_NE(evidence(result, "model")["baseline"].get<std::string>().find("transformers"), std::string::npos);
  EXPECT_EQ(result.golden.prompts.at(0).num_prompt, 12) << "readiness asks for the recording's";
  EXPECT_TRUE(evidence(result, "model")["sees"]["spec"]["sees"].get<bool>());
}

TEST(Gates, AnotherModelsRecordingClosesTheModelGate) {
  const AdaptResult result =
      run(adapt::golden_path("llama_bias"), options_for(catalog::Backend::kReference, pack_path("llama")));
  expect_closed_at(result, "model");
  EXPECT_FALSE(evidence(result, "model").contains("error")) << "a verdict, not a fault";
  EXPECT_GE(evidence(result, "model")["first_wrong_position"], 0);
  EXPECT_NE(result.gates.back().summary.find("of the baseline"), std::string::npos) << result.gates.back().summary;
}

TEST(Gates, ABaselineThatIsNoneIsAnError) {
  const AdaptResult result = run(adapt::golden_path(), options_for(catalog::Backend::kReference, "/no/such/pack"));
  expect_closed_at(result, "model");
  EXPECT_EQ(evidence(result, "model")["error"]["code"], "not found");
  EXPECT_NE(result.gates.back().summary.find("/no/such/pack"), std::string::npos);
}

TEST(Gates, NoModelEndsAtIntake) {
  const AdaptResult result = run("/no/such/model", options_for(catalog::Backend::kReference));
  expect_closed_at(result, "intake");
  EXPECT_EQ(levels(result), (std::vector<std::string>{"intake"}));
  EXPECT_EQ(evidence(result, "intake")["error"]["code"], "not found");
}

TEST(Gates, AnUnknownKeyEndsAtIntakeUnlessThatOneIsAdmitted) {
  const adapt::TestFolder folder;
  folder.copy_golden();
  Json config = adapt::read_json_file(folder / "config.json");
  config["swiglu_limit"] = 7.0;
  config["other_limit"] = 8.0;
  adapt::write_text(folder / "config.json", dump_json(config));
  GateOptions options = options_for(catalog::Backend::kReference);
  options.bring_up.intake.allow_unbound = {"swiglu_limit"};
  const AdaptResult refused = run(folder.path(), options);
  expect_closed_at(refused, "intake");
  EXPECT_NE(refused.gates.back().summary.find("other_limit"), std::string::npos) << refused.gates.back().summary;
  options.bring_up.intake.allow_unbound.push_back("other_limit");
  const AdaptResult admitted = run(folder.path(), options);
  EXPECT_TRUE(admitted.passed);
  EXPECT_TRUE(evidence(admitted, "coverage")["config"]["waived"].contains("swiglu_limit"));
}

TEST(Gates, WhatDoesNotFitEndsAtLoad) {
  GateOptions options = options_for(catalog::Backend::kCpu);
  options.bring_up.headroom = 1;
  const AdaptResult result = run(adapt::golden_path(), options);
  expect_closed_at(result, "load");
  EXPECT_EQ(evidence(result, "load")["error"]["code"], "out of memory");
}

TEST(Gates, AnUnknownPassEndsAtThePlan) {
  GateOptions options = options_for(catalog::Backend::kCpu);
  options.bring_up.disabled_passes = {"no_such_pass"};
  const AdaptResult result = run(adapt::golden_path(), options);
  expect_closed_at(result, "plan");
  EXPECT_NE(result.gates.back().summary.find("no_such_pass"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::gates
