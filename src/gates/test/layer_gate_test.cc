// SPDX-License-Identifier: Apache-2.0
#include "gates/layer_gate.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "gates/layer_kinds.h"
#include "gates/test/gate_candidate.h"

namespace firstlight::gates {
namespace {

Verdict run(const std::string& family, const adapt::BringUpOptions& options, const ir::Graph* tested = nullptr) {
  GateSubject subject = subject_of(adapt::golden_path(family), options);
  if (subject.loaded == nullptr) return {};
  Candidate candidate = subject.candidate();
  auto verdict = layer_gate(candidate, tested);
  EXPECT_TRUE(verdict.ok()) << family << ": " << verdict.status().message();
  return verdict.ok() ? *verdict : Verdict{};
}

const char* const kFamilies[] = {"llama",        "qwen3_moe", "gemma3",      "gpt_oss",    "deepseek_v3",
                                 "deepseek_v32", "mamba2",    "kimi_linear", "qwen3_next", "jamba",
                                 "phi3",         "minimax",   "lfm2",        "llama4"};

TEST(LayerGate, HealthyLayersPass) {
  for (const char* family : kFamilies) {
    for (const bool in_f32 : {true, false}) {
      auto options = cpu_options();
      if (in_f32) options.compute = catalog::ComputeMode::kF32;
      const Verdict verdict = run(family, options);
      EXPECT_TRUE(verdict.passed) << family << ": " << verdict.summary;
    }
  }
}

TEST(LayerGate, QuantisedModelsRaiseNoAlarm) {
  for (const char* family : {"quant_awq", "gpt_oss_mxfp4", "quant_mxfp8", "../gguf/granite.gguf"}) {
    const Verdict verdict = run(family, cpu_options());
    EXPECT_TRUE(verdict.passed) << family << ": " << verdict.summary;
  }
}

TEST(LayerGate, LayersThatAreAlikeAreOneKind) {
  const Verdict verdict = run("gemma3", cpu_options());
  const Json evidence = Json::parse(verdict.evidence);
  ASSERT_EQ(evidence["kinds"].size(), 5u);  // embedding, windowed layers, a full one, the last one, head
  EXPECT_EQ(evidence["kinds"][1]["stands_for"].size(), 5u);
  EXPECT_EQ(evidence["kinds"][2]["stands_for"], Json::array({"model.layers.5"}));
  for (const Json& kind : evidence["kinds"]) {
    ASSERT_EQ(kind["modes"].size(), 3u);
    for (const Json& mode : kind["modes"]) EXPECT_FALSE(mode["values"].empty()) << kind;
  }
}

// A pass that loses a constant: the same values, another number in one layer.
TEST(LayerGate, AFaultOfAPassIsFoundInItsLayer) {
  auto options = cpu_options();
  options.compute = catalog::ComputeMode::kF32;
  options.state_dtype = tensor::DType::kF32;
  GateSubject subject = subject_of(adapt::golden_path("llama"), options);
  ir::Graph wrong = subject.loaded->model.graph;
  for (ir::Node& node : wrong.nodes) {
    if (node.op == ops::OpKind::kRmsNorm && node.scope.find("layers.0") != std::string::npos) {
      node.attributes.set("eps", node.attributes.get_float("eps") + 0.01);
      break;
    }
  }
  Candidate candidate = subject.candidate();
  const Verdict verdict = layer_gate(candidate, &wrong).value();
  EXPECT_FALSE(verdict.passed);
  EXPECT_NE(verdict.summary.find("layers.0"), std::string::npos) << verdict.summary;
}

// Right for whole prompts, wrong where a chunk that is not the first one begins.
TEST(LayerGate, AFaultAtTheBorderOfChunksIsFoundThereAlone) {
  for (const char* family : {"llama", "mamba2"}) {
    const Verdict verdict =
        run(family, cpu_options([](const runtime::StepCall& call) {
              const bool mixes = call.step.op == ops::OpKind::kAttend || call.step.op == ops::OpKind::kConv1d;
              if (!mixes || call.batch.sequences[0].start_position == 0 || call.batch.sequences[0].num_tokens < 2)
                return;
              const int64_t width = call.outputs[0].num_elements() / call.outputs[0].dim(0);
              scale_elements(call.outputs[0], 0, width, 1.1f);
            }));
    EXPECT_FALSE(verdict.passed) << family;
    const Json evidence = Json::parse(verdict.evidence);
    for (const Json& kind : evidence["kinds"]) {
      for (const Json& mode : kind["modes"]) {
        EXPECT_TRUE(mode["passed"].get<bool>() || mode["mode"] == "chunked") << kind["layer"] << mode["mode"];
      }
    }
  }
}

// One row of many: its own bound sees it, the whole's would not.
TEST(LayerGate, OneWrongRowIsFound) {
  const Verdict verdict = run("llama", cpu_options([](const runtime::StepCall& call) {
                                if (call.step.op != ops::OpKind::kAttend || call.values.tokens < 20) return;
                                const tensor::View& out = call.outputs[0];
                                const int64_t width = out.num_elements() / out.dim(0);
                                scale_elements(out, out.num_elements() - width, out.num_elements(), 0.8f);
                              }));
  EXPECT_FALSE(verdict.passed);
  EXPECT_NE(verdict.summary.find("row 23"), std::string::npos) << verdict.summary;
}

// Below the floor nothing is said, and just above what rounding explains it is caught: in float32 and in bfloat16.
TEST(LayerGate, AnErrorJustAboveItsToleranceIsCaught) {
  const auto spoiled = [](float factor, catalog::ComputeMode mode) {
    auto options = cpu_options([factor](const runtime::StepCall& call) {
      if (call.step.op == ops::OpKind::kAttend)
        scale_elements(call.outputs[0], 0, call.outputs[0].num_elements(), factor);
    });
    options.compute = mode;
    options.state_dtype = tensor::DType::kF32;
    return run("llama", options).passed;
  };
  EXPECT_TRUE(spoiled(1.000001f, catalog::ComputeMode::kF32));
  EXPECT_FALSE(spoiled(1.001f, catalog::ComputeMode::kF32));
  EXPECT_TRUE(spoiled(1.0005f, catalog::ComputeMode::kBf16));
  EXPECT_FALSE(spoiled(1.1f, catalog::ComputeMode::kBf16));
}

TEST(LayerGate, DevicesAreHeldAgainstTheReference) {
  auto options = adapt::quick_options(catalog::Backend::kSimt);
  options.cache_dir = FL_GATE_CACHE;
  const Verdict verdict = run("llama", options);
  EXPECT_TRUE(verdict.passed) << verdict.summary;
}

}  // namespace
}  // namespace firstlight::gates
