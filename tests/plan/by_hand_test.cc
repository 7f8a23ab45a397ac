// SPDX-License-Identifier: Apache-2.0
// A spec written in primitives alone gains the same kernels: the plan of specs/llama_by_hand.lua is that of the shipped
// template, step by step and byte by byte.
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "intake/intake.h"

namespace firstlight::compiler {
namespace {

const std::string kSource = FL_SOURCE_DIR;

Result<plan::Plan> plan_of(const std::string& checkpoint_name, const std::string& spec, const CompileOptions& options) {
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(kSource + "/tests/golden/data/" + checkpoint_name));
  intake::Model model = FL_TRY(intake::load_model(checkpoint, {.spec_file = spec}));
  return compile(std::move(model.graph), options);
}

// All but the first line, which names the spec.
std::string body_of(const plan::Plan& plan) {
  const std::string text = plan::print(plan);
  return text.substr(text.find('\n'));
}

class ByHand : public testing::TestWithParam<std::string> {};

TEST_P(ByHand, GivesTheSamePlan) {
  for (const int units : {0, 132}) {
    CompileOptions options{.backend = catalog::Backend::kCpu, .features = {target::kAvx2}};
    options.buckets = {{1, 1}, {64, 4}};
    options.execution.wide_units = units;
    const auto by_template = plan_of(GetParam(), kSource + "/architectures/llama.lua", options);
    ASSERT_TRUE(by_template.ok()) << by_template.status().message();
    const auto by_hand = plan_of(GetParam(), kSource + "/tests/plan/specs/llama_by_hand.lua", options);
    ASSERT_TRUE(by_hand.ok()) << by_hand.status().message();
    EXPECT_EQ(body_of(*by_hand), body_of(*by_template));
  }
}

TEST_P(ByHand, TakesManyMoreStepsWithoutPasses) {
  CompileOptions options{.backend = catalog::Backend::kCpu, .features = {target::kAvx2}};
  const auto fused = plan_of(GetParam(), kSource + "/tests/plan/specs/llama_by_hand.lua", options);
  options.disabled_passes = {"all"};
  const auto plain = plan_of(GetParam(), kSource + "/tests/plan/specs/llama_by_hand.lua", options);
  ASSERT_TRUE(fused.ok() && plain.ok());
  EXPECT_GE(plain->body.steps.size(), 4 * fused->body.steps.size());
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ByHand, testing::Values("llama", "smollm2"),
                         [](const testing::TestParamInfo<std::string>& name) { return name.param; });

}  // namespace
}  // namespace firstlight::compiler
