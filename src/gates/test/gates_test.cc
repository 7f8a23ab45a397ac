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
    options.gate_done = [&](const Gate& gate) { told.push_back(gate.level); };
    const AdaptResult result = run(adapt::golden_path(), options);
    EXPECT_TRUE(result.passed);
    EXPECT_EQ(levels(result), (std::vector<std::string>{"intake", "coverage", "plan", "load", "model"}));
    EXPECT_EQ(told, levels(result));
    ASSERT_NE(result.loaded, nullptr);
    EXPECT_NE(result.loaded->executor, nullptr);
    EXPECT_EQ(result.golden.origin, "reference backend");
    EXPECT_EQ(result.golden.logits.size(), static_cast<size_t>(result.golden.num_prompt) + 4);
    EXPECT_EQ(evidence(result, "intake")["architecture"], "llama");
    EXPECT_FALSE(evidence(result, "coverage")["config"]["bound"].empty());
    EXPECT_EQ(evidence(result, "coverage")["tensors"]["bound"], 21);
    EXPECT_GE(evidence(result, "plan")["arena_bytes"], evidence(result, "plan")["lower_bound_bytes"]);
    EXPECT_EQ(evidence(result, "load")["threads"], 1);
    EXPECT_LE(evidence(result, "model")["worst_rel_l2"], evidence(result, "model")["bound_rel_l2"]);
    EXPECT_EQ(evidence(result, "model")["rows"], result.golden.logits.size());
    for (const Gate& gate : result.gates) EXPECT_FALSE(gate.summary.empty()) << gate.level;
  }
}

TEST(Gates, ARecordingIsTheBaseline) {
  const AdaptResult result = run(adapt::golden_path(), options_for(catalog::Backend::kCpu, adapt::golden_path()));
  EXPECT_TRUE(result.passed);
  EXPECT_NE(evidence(result, "model")["baseline"].get<std::string>().find("transformers"), std::string::npos);
  EXPECT_EQ(evidence(result, "model")["rows"], adapt::golden_ids("prompt").size());
}

TEST(Gates, AnotherModelsRecordingClosesTheModelGate) {
  const AdaptResult result =
      run(adapt::golden_path("llama_bias"), options_for(catalog::Backend::kReference, adapt::golden_path()));
  expect_closed_at(result, "model");
  EXPECT_FALSE(evidence(result, "model").contains("error")) << "a verdict, not a fault";
  EXPECT_EQ(evidence(result, "model")["first_wrong_position"], 0);
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
