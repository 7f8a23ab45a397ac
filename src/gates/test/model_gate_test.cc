// SPDX-License-Identifier: Apache-2.0
// Healthy models pass; a model whose plan was made from a spoiled graph, while the reference has the right one, does
// not, on the prompt and the path that can see it.
#include "gates/model_gate.h"

#include <gtest/gtest.h>

#include "adapt/model_options.h"
#include "adapt/test/golden_model.h"
#include "device/cpu/detect.h"
#include "gates/gates.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

using Edit = std::function<void(ir::Graph& graph)>;

struct Tested {
  Verdict verdict;
  Golden golden;
  Json evidence;
  const Json& path(size_t prompt, const std::string& name) const {
    for (const Json& one : evidence["prompts"][prompt]["paths"]) {
      if (one["path"] == name) return one;
    }
    ADD_FAILURE() << "no path " << name;
    static const Json none;
    return none;
  }
};

// float32 with a float32 state, so that nothing rounds.
adapt::BringUpOptions exact_options() {
  adapt::BringUpOptions options = adapt::quick_options(catalog::Backend::kCpu);
  options.compute = catalog::ComputeMode::kF32;
  options.state_dtype = tensor::DType::kF32;
  return options;
}

Tested run(const std::string& name, const Edit& edit = {}, const GateOptions& wanted = {},
           const adapt::BringUpOptions& bring_up = exact_options()) {
  GateOptions options = wanted;
  options.bring_up = bring_up;
  const std::string path = adapt::golden_path(name);
  auto loaded = adapt::bring_up(path, bring_up);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return {};
  const auto target = device::detect_cpu();
  if (edit) {
    ir::Graph graph = (*loaded)->model.graph;
    edit(graph);
    auto plan = compiler::compile(graph, adapt::compile_options(bring_up, target, graph));
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return {};
    auto executor = adapt::load(*(*loaded)->checkpoint, std::move(*plan), *(*loaded)->pool, bring_up, target);
    EXPECT_TRUE(executor.ok()) << executor.status().message();
    (*loaded)->executor = std::move(*executor);
  }
  Tested tested;
  const adapt::TextAssets text;
  Candidate candidate{.path = path,
                      .options = options,
                      .bring_up = bring_up,
                      .target = target,
                      .loaded = **loaded,
                      .text = text,
                      .golden = tested.golden};
  auto verdict = model_gate(candidate);
  EXPECT_TRUE(verdict.ok()) << verdict.status().message();
  if (!verdict.ok()) return tested;
  tested.verdict = std::move(*verdict);
  tested.evidence = Json::parse(tested.verdict.evidence);
  return tested;
}

// Sets an integer attribute of attention, wherever it is not 0.
Edit set_attribute(const std::string& name, int64_t value) {
  return [=](ir::Graph& graph) {
    int changed = 0;
    for (ir::Node& node : graph.nodes) {
      if (node.op != ops::OpKind::kAttend || node.attributes.get_int(name) == 0) continue;
      node.attributes.set(name, value);
      ++changed;
    }
    EXPECT_GT(changed, 0) << name;
  };
}

TEST(ModelGate, HealthyModelsPassExactAndRounded) {
  for (const char* name : {"llama", "gemma2", "mamba2", "llama4", "qwen3_next"}) {
    const Tested exact = run(name);
    EXPECT_TRUE(exact.verdict.passed) << name << ": " << exact.verdict.summary;
    EXPECT_FALSE(exact.evidence["rounding"]["measured"].get<bool>()) << name;
    const Tested rounded = run(name, {}, {}, adapt::quick_options(catalog::Backend::kCpu));
    EXPECT_TRUE(rounded.verdict.passed) << name << ": " << rounded.verdict.summary;
    EXPECT_TRUE(rounded.evidence["rounding"]["measured"].get<bool>()) << name;
  }
}

TEST(ModelGate, SaysWhatItLookedAt) {
  const Tested tested = run("gemma2");
  ASSERT_EQ(tested.evidence["prompts"].size(), 2u) << "the text is past window and run already";
  EXPECT_EQ(tested.evidence["prompts"][0]["paths"].size(), 2u);
  EXPECT_EQ(tested.evidence["prompts"][1]["paths"].size(), 3u);
  EXPECT_EQ(tested.path(1, "pieces of 13")["passed"], true);
  EXPECT_GT(tested.evidence["perplexity"]["tokens"], 100);
  EXPECT_EQ(tested.evidence["horizons"].size(), 2u);
  for (const Json& horizon : tested.evidence["horizons"]) EXPECT_TRUE(horizon["passed"].get<bool>());
  EXPECT_TRUE(tested.evidence["left_out"].empty());
  EXPECT_EQ(tested.evidence["prompts"][0]["greedy"]["wanted"], tested.evidence["prompts"][0]["greedy"]["found"]);
  EXPECT_FALSE(tested.evidence["sees"]["spec"]["sees"].get<bool>());
  EXPECT_TRUE(tested.evidence["sees"]["kernels"]["sees"].get<bool>());
}

TEST(ModelGate, AWindowOffByOneIsSeenBehindItAlone) {
  const Tested tested = run("mistral", set_attribute("window", 7));
  EXPECT_FALSE(tested.verdict.passed);
  for (const Json& row : tested.evidence["prompts"][1]["row_list"]) {
    const auto position = row["position"].get<int64_t>();
    const auto distance = row["rel_l2"].get<double>();
    EXPECT_TRUE(position >= 7 || distance <= 2e-5) << position << ": " << distance;
    EXPECT_TRUE(position != 7 || distance > 1e-4) << "the first that sees one too few: " << distance;
  }
}

TEST(ModelGate, AChunkOffByOneIsSeenBehindItsBorder) {
  const Tested tested = run("llama4", set_attribute("chunk", 7));
  EXPECT_FALSE(tested.verdict.passed) << tested.verdict.summary;
  for (const Json& row : tested.evidence["prompts"][1]["row_list"]) {
    const auto position = row["position"].get<int64_t>();
    const auto distance = row["rel_l2"].get<double>();
    EXPECT_TRUE(position >= 7 || distance <= 2e-5) << position << ": " << distance;
  }
}

TEST(ModelGate, WhatTheReferenceCanNotAffordIsLeftOutAndSaid) {
  GateOptions options;
  options.reference_seconds = 1e-6;
  adapt::BringUpOptions bring_up = exact_options();
  bring_up.buckets = {{512, 16}};
  const Tested tested = run("gpt_oss", {}, options, bring_up);
  EXPECT_TRUE(tested.verdict.passed) << tested.verdict.summary;
  EXPECT_FALSE(tested.evidence["left_out"].empty());
  EXPECT_NE(tested.verdict.summary.find("left out: run of 512 tokens"), std::string::npos) << tested.verdict.summary;
  const Tested beyond = run("llama", {}, {}, bring_up);
  EXPECT_NE(beyond.verdict.summary.find("positions"), std::string::npos) << beyond.verdict.summary;
}

TEST(ModelGate, PacksOfVendorsAreBaselines) {
  for (const char* name : {"llama", "gemma2", "granite", "gpt_oss", "glm4_moe", "deepseek_v3", "qwen3_moe"}) {
    GateOptions options;
    options.baseline = std::string(FL_SOURCE_DIR) + "/tests/golden/packs/" + name + ".transformers";
    const Tested tested = run(name, {}, options);
    EXPECT_TRUE(tested.verdict.passed) << name << ": " << tested.verdict.summary;
    EXPECT_TRUE(tested.evidence["sees"]["spec"]["sees"].get<bool>());
    EXPECT_FALSE(tested.evidence["sees"]["weights"]["sees"].get<bool>());
    EXPECT_GE(tested.golden.prompts.at(0).num_prompt, 12);
  }
}

// The reference shares the spec and so the fault; the vendor's recording does not.
TEST(ModelGate, AFaultOfTheSpecIsSeenByTheVendorsPackAlone) {
  GateOptions options;
  options.baseline = std::string(FL_SOURCE_DIR) + "/tests/golden/packs/gemma2.transformers";
  const adapt::TestFolder folder;
  folder.copy_golden("gemma2");
  Json config = adapt::read_json_file(folder / "config.json");
  config["final_logit_softcapping"] = 5.0;
  adapt::write_text(folder / "config.json", dump_json(config));
  options.bring_up = exact_options();
  options.levels = {Level::kModel};
  auto blind = options;
  blind.baseline.clear();
  const auto unseen = run_gates(folder.path(), blind);
  ASSERT_TRUE(unseen.ok());
  EXPECT_TRUE(unseen->passed) << unseen->gates.back().summary;
  const auto seen = run_gates(folder.path(), options);
  ASSERT_TRUE(seen.ok());
  EXPECT_FALSE(seen->passed);
  EXPECT_NE(seen->gates.back().summary.find("of the baseline"), std::string::npos) << seen->gates.back().summary;
}

TEST(ModelGate, PerplexityShowsAnotherTemperature) {
  // A recording whose every row is 2 % steeper has the same best tokens.
  const auto loaded = adapt::bring_up(adapt::golden_path("gemma2"), exact_options());
  ASSERT_TRUE(loaded.ok());
  auto made = make_golden(**loaded, exact_options(), adapt::golden_ids("prompt", "gemma2"), 0);
  ASSERT_TRUE(made.ok());
  for (GoldenRow& row : made->prompts[0].rows) {
    for (float& logit : row.logits) logit *= 1.02f;
    row = whole_row(row.position, row.logits);
  }
  const auto rows = compare_prompt(*(*loaded)->executor, *made, made->prompts[0], {.name = "whole"});
  ASSERT_TRUE(rows.ok());
  double change = 0;
  for (const RowResult& row : *rows) {
    EXPECT_EQ(row.best, row.found_best);
    if (row.scored) change += row.found_surprise - row.surprise;
  }
  EXPECT_GT(std::abs(change), 1e-3);
  EXPECT_FALSE(reproduce(*(*loaded)->executor, *made)->passed);
}

}  // namespace
}  // namespace firstlight::gates
