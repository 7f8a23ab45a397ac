// SPDX-License-Identifier: Apache-2.0
#include "gates/operator_gate.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "gates/test/gate_candidate.h"

namespace firstlight::gates {
namespace {

Json evidence_of(const Verdict& verdict) { return Json::parse(verdict.evidence); }

Verdict run(const std::string& family, const adapt::BringUpOptions& options) {
  GateSubject subject = subject_of(adapt::golden_path(family), options);
  if (subject.loaded == nullptr) return {};
  Candidate candidate = subject.candidate();
  auto verdict = operator_gate(candidate);
  EXPECT_TRUE(verdict.ok()) << family << ": " << verdict.status().message();
  return verdict.ok() ? *verdict : Verdict{};
}

// Ten kinds of architecture and more: attention of every sort, routers, recurrences, indexers, norms.
const char* const kFamilies[] = {"llama",        "qwen3_moe", "gemma3",      "gpt_oss",    "deepseek_v3",
                                 "deepseek_v32", "mamba2",    "kimi_linear", "qwen3_next", "jamba",
                                 "phi3",         "minimax",   "lfm2",        "llama4"};

TEST(OperatorGate, HealthyKernelsPass) {
  for (const char* family : kFamilies) {
    for (const bool in_f32 : {true, false}) {
      auto options = cpu_options();
      if (in_f32) options.compute = catalog::ComputeMode::kF32;
      const Verdict verdict = run(family, options);
      EXPECT_TRUE(verdict.passed) << family << ": " << verdict.summary;
      EXPECT_EQ(evidence_of(verdict)["not_judged"], Json::array()) << family;
    }
  }
}

TEST(OperatorGate, QuantisedModelsRaiseNoAlarm) {
  for (const char* family : {"quant_awq", "gpt_oss_mxfp4", "quant_mxfp8", "../gguf/granite.gguf"}) {
    const Verdict verdict = run(family, cpu_options());
    EXPECT_TRUE(verdict.passed) << family << ": " << verdict.summary;
  }
}

TEST(OperatorGate, EveryStepOfThePlanHasALine) {
  GateSubject subject = subject_of(adapt::golden_path(), cpu_options());
  Candidate candidate = subject.candidate();
  const Verdict verdict = operator_gate(candidate).value();
  size_t steps = 0;
  const Json evidence = evidence_of(verdict);
  for (const Json& line : evidence["kernels"]) {
    steps += line["steps"].get<size_t>();
    EXPECT_GE(line["calls"], 1) << line;
    EXPECT_FALSE(line["shapes"].empty()) << line;
    EXPECT_LE(line["worst_of_bound"], 1.0) << line;
  }
  EXPECT_EQ(steps, subject.loaded->executor->plan().body.steps.size());
}

// A kernel that is right everywhere but in the last row, at sizes that leave five rows over.
TEST(OperatorGate, AKernelWrongOnTailsOnlyIsFound) {
  for (const float factor : {1.001f, 2.0f}) {
    auto options = cpu_options([factor](const runtime::StepCall& call) {
      if (call.step.op != ops::OpKind::kFusedLinear || call.values.tokens % 8 != 5) return;
      const tensor::View& out = call.outputs[0];
      scale_elements(out, out.num_elements() - 3, out.num_elements(), factor);
    });
    options.compute = catalog::ComputeMode::kF32;
    const Verdict verdict = run("llama", options);
    EXPECT_FALSE(verdict.passed);
    EXPECT_NE(verdict.summary.find("T="), std::string::npos) << verdict.summary;
    size_t failed = 0;
    const Json evidence = evidence_of(verdict);
    for (const Json& line : evidence["kernels"]) {
      EXPECT_TRUE(line["passed"].get<bool>() || line["op"] == "fused_linear") << line;
      failed += line["passed"].get<bool>() ? 0 : 1;
    }
    EXPECT_GE(failed, 1u);
  }
}

// In every compute mode a defect just above what rounding explains is caught; what lies well within it passes.
TEST(OperatorGate, AnErrorJustAboveTheBoundIsCaught) {
  const auto spoiled = [](float factor, std::optional<catalog::ComputeMode> mode) {
    auto options = cpu_options([factor](const runtime::StepCall& call) {
      if (call.step.op != ops::OpKind::kFusedLinear && call.step.op != ops::OpKind::kLinear) return;
      scale_elements(call.outputs[0], 0, call.outputs[0].num_elements(), factor);
    });
    options.compute = mode;
    return run("llama", options).passed;
  };
  EXPECT_TRUE(spoiled(1.0000001f, catalog::ComputeMode::kF32));
  EXPECT_FALSE(spoiled(1.0001f, catalog::ComputeMode::kF32));
  EXPECT_TRUE(spoiled(1.0003f, catalog::ComputeMode::kBf16));
  EXPECT_FALSE(spoiled(1.05f, catalog::ComputeMode::kBf16));
}

TEST(OperatorGate, AStateWrittenWrongIsFound) {
  const Verdict verdict = run("llama", cpu_options([](const runtime::StepCall& call) {
                                const bool writes =
                                    call.step.op == ops::OpKind::kRopeAppend || call.step.op == ops::OpKind::kAppend;
                                if (!writes || call.batch.sequences[0].start_position == 0) return;
                                auto* page = reinterpret_cast<uint16_t*>(call.states[0]->pages[0][0]);
                                page[0] ^= 0x0200;  // a key of the first token: no kernel may touch it any more
                              }));
  EXPECT_FALSE(verdict.passed);
  EXPECT_NE(verdict.summary.find("page"), std::string::npos) << verdict.summary;
}

TEST(OperatorGate, AttentionThatForgetsTheFirstKeyIsFound) {
  const Verdict verdict = run("llama", cpu_options([](const runtime::StepCall& call) {
                                if (call.step.op != ops::OpKind::kAttend || call.values.tokens != 1) return;
                                scale_elements(call.outputs[0], 0, 4, 1.02f);
                              }));
  EXPECT_FALSE(verdict.passed);
  EXPECT_NE(verdict.summary.find("attend"), std::string::npos) << verdict.summary;
}

TEST(OperatorGate, DevicesAreJudgedByTheSameMeaning) {
  auto options = adapt::quick_options(catalog::Backend::kSimt);
  options.buckets = {{20, 4, 4}};
  options.cache_dir = FL_GATE_CACHE;
  const Verdict verdict = run("llama", options);
  EXPECT_TRUE(verdict.passed) << verdict.summary;
  EXPECT_EQ(evidence_of(verdict)["not_judged"], Json::array());
}

}  // namespace
}  // namespace firstlight::gates
