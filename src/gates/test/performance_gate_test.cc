// SPDX-License-Identifier: Apache-2.0
// With clocks and machines of the test's own: what is measured is what the test says.
#include "gates/performance_gate.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "base/json.h"
#include "gates/gates.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

// Reads 1 GB a token and computes 2e11 operations for a prompt of 512, on a machine of 10 GB/s and 1 Tflop/s: at the
// roof 10 tokens/s and 2560 tokens/s.
struct FakeMachine {
  std::vector<double> decode = {10}, prompt = {2560};  // per round, the last one for ever
  double bandwidth = 10, weight_bytes = 1e9;
  std::vector<double> bandwidths;  // per round
  int rounds = 0, roofs = 0;
  Meter meter;

  FakeMachine() {
    meter.measure = [this](const TargetPoint& point, int64_t) -> Result<BenchmarkRow> {
      const auto at = [&](const std::vector<double>& values) {
        return values[std::min(values.size() - 1, static_cast<size_t>(rounds))];
      };
      const BenchmarkRow row{.prompt = point.prompt,
                             .depth = point.depth,
                             .batch = point.batch,
                             .ttft_s = static_cast<double>(point.prompt) / at(prompt),
                             .prompt_tps = at(prompt),
                             .decode_tps = at(decode)};
      ++rounds;
      return row;
    };
    meter.roof = [this] {
      const auto i = static_cast<size_t>(roofs++);
      return target::CpuRoof{.read_gbps = i < bandwidths.size() ? bandwidths[i] : bandwidth, .f32_tflops = 1};
    };
    meter.work = [this](const RunShape& shape) {
      return PlanWork{
          .weight_bytes = weight_bytes, .f32_operations = 2e11 * static_cast<double>(shape.tokens) / 512, .steps = 100};
    };
    meter.cache_bytes = 3e7;
    meter.memory_bytes = [](int64_t tokens, int64_t sequences) {
      return 1e9 + 1e6 * static_cast<double>(tokens * sequences);
    };
  }

  Verdict judge(const Targets* targets = nullptr) {
    const std::vector<TargetPoint> own = {{.prompt = 512, .ttft_s = {}, .prompt_tps = {}, .decode_tps = {}}};
    auto verdict = judge_performance(meter, targets, targets == nullptr ? own : targets->points);
    EXPECT_TRUE(verdict.ok()) << verdict.status().message();
    return std::move(*verdict);
  }
};

Json figure(const Verdict& verdict, const std::string& what) {
  const Json evidence = Json::parse(verdict.evidence);
  for (const Json& one : evidence["points"][0]["figures"]) {
    if (one["what"] == what) return one;
  }
  ADD_FAILURE() << what;
  return {};
}

TEST(PerformanceGate, TheRoofItselfIsTheWholeShare) {
  FakeMachine machine;
  const Verdict verdict = machine.judge();
  EXPECT_TRUE(verdict.passed) << verdict.summary;
  EXPECT_EQ(machine.rounds, 3);
  EXPECT_NEAR(figure(verdict, "decode_tps")["share"].get<double>(), 1, 1e-9);
  EXPECT_EQ(figure(verdict, "decode_tps")["bound"], "memory");
  EXPECT_NEAR(figure(verdict, "prompt_tps")["share"].get<double>(), 1, 1e-9);
  EXPECT_EQ(figure(verdict, "prompt_tps")["bound"], "arithmetic");
}

TEST(PerformanceGate, ClosesBelowTheShareAndLooksTwice) {
  FakeMachine machine;
  machine.decode = {10 * tolerance::kShareOfReading * 0.9};
  const Verdict slow = machine.judge();
  EXPECT_FALSE(slow.passed);
  EXPECT_EQ(machine.rounds, 6);
  EXPECT_NE(slow.summary.find("decode_tps"), std::string::npos) << slow.summary;
  EXPECT_NE(slow.summary.find("memory"), std::string::npos) << slow.summary;
  FakeMachine just;
  just.decode = {10 * tolerance::kShareOfReading * 1.01};
  EXPECT_TRUE(just.judge().passed);
  FakeMachine prompt;
  prompt.prompt = {2560 * tolerance::kShareOfArithmetic * 0.9};
  const Verdict slow_prompt = prompt.judge();
  EXPECT_FALSE(slow_prompt.passed);
  EXPECT_NE(slow_prompt.summary.find("arithmetic"), std::string::npos) << slow_prompt.summary;
}

TEST(PerformanceGate, OneNoisyRoundIsNoVerdict) {
  FakeMachine machine;
  machine.decode = {0.1, 10};
  EXPECT_TRUE(machine.judge().passed) << "the median counts";
  FakeMachine busy;  // neighbours during the whole first look
  busy.decode = {0.1, 0.1, 0.1, 10};
  EXPECT_TRUE(busy.judge().passed);
  FakeMachine always;
  always.decode = {0.1, 0.1, 0.1, 10, 0.1, 0.1};
  EXPECT_FALSE(always.judge().passed);
  FakeMachine shared;  // the machine itself is slow in that round, and so is its roof
  shared.decode = {1};
  shared.bandwidth = 1;
  EXPECT_TRUE(shared.judge().passed);
}

TEST(PerformanceGate, OtherWorkOnTheMachineIsNoVerdictEither) {
  FakeMachine busy;
  busy.decode = {0.1};
  int asked = 0;
  busy.meter.core_time = [&] {
    const double at = asked++;  // each second others take one of two cores
    return CoreTime{.busy_s = 1.5 * at, .total_s = 2 * at, .own_s = 0.5 * at};
  };
  const Verdict verdict = busy.judge();
  EXPECT_TRUE(verdict.passed);
  EXPECT_NE(verdict.summary.find("50 % of the cores"), std::string::npos) << verdict.summary;
  EXPECT_FALSE(figure(verdict, "decode_tps")["judged"].get<bool>());
  EXPECT_TRUE(figure(verdict, "prompt_tps")["judged"].get<bool>()) << "what is fast all the same is judged";
  const auto targets = parse_targets("[[point]]\ndecode_tps = 1");
  EXPECT_FALSE(busy.judge(&*targets).passed) << "targets are held whatever else runs";
}

TEST(PerformanceGate, JudgesNothingWhereTheRoofIsNoMeasure) {
  FakeMachine steps;
  steps.meter.step_s = 0.01;
  steps.decode = {0.01};
  steps.prompt = {0.01};
  const Verdict by_steps = steps.judge();
  EXPECT_TRUE(by_steps.passed);
  EXPECT_NE(figure(by_steps, "decode_tps")["why"].get<std::string>().find("steps"), std::string::npos);
  FakeMachine cached;
  cached.weight_bytes = 2e7;
  cached.decode = {0.01};
  const Verdict by_cache = cached.judge();
  EXPECT_TRUE(by_cache.passed);
  EXPECT_NE(figure(by_cache, "decode_tps")["why"].get<std::string>().find("caches"), std::string::npos);
  FakeMachine device;
  device.meter.roof = {};
  device.decode = {0.01};
  EXPECT_TRUE(device.judge().passed);
  EXPECT_FALSE(figure(device.judge(), "decode_tps")["judged"].get<bool>());
}

TEST(PerformanceGate, TargetsAreHeldAsTheyStand) {
  const auto judge = [](const char* text, double decode = 10) {
    const auto targets = parse_targets(text);
    EXPECT_TRUE(targets.ok()) << targets.status().message();
    FakeMachine machine;
    machine.decode = {decode};
    return machine.judge(&*targets);
  };
  EXPECT_TRUE(judge("[[point]]\ndecode_tps = 9.9").passed);
  const Verdict slow = judge("[[point]]\ndecode_tps = 10.1\nprompt_tps = 2000");
  EXPECT_FALSE(slow.passed);
  EXPECT_NE(slow.summary.find("10.1 wanted"), std::string::npos) << slow.summary;
  EXPECT_TRUE(figure(slow, "prompt_tps")["passed"].get<bool>());
  EXPECT_TRUE(judge("[[point]]\nprompt = 256\nttft_s = 0.11").passed);
  EXPECT_FALSE(judge("[[point]]\nprompt = 256\nttft_s = 0.09").passed);
  EXPECT_TRUE(judge("[[point]]\nttft_s = 100", 0.001).passed) << "what is not asked for is not judged";
  EXPECT_TRUE(judge("memory_mb = 1001").passed);
  const Verdict large = judge("memory_mb = 1500\n[[point]]\nprompt = 400\nbatch = 2\ndecode_tps = 1");
  EXPECT_FALSE(large.passed) << "1 GB and 2 sequences of 432 MB";
  EXPECT_NE(large.summary.find("at most 1500"), std::string::npos) << large.summary;
}

TEST(PerformanceGate, RunsOnARealModelAndRefusesBadTargets) {
  GateOptions options;
  options.bring_up = adapt::quick_options(catalog::Backend::kCpu);
  options.levels = {Level::kPerformance};
  const auto run = [&](const std::string& targets) {
    const adapt::TestFolder folder;
    if (!targets.empty()) adapt::write_text(folder / "targets.toml", targets);
    options.targets = targets.empty() ? "" : folder / "targets.toml";
    auto result = run_gates(adapt::golden_path(), options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return std::move(result->gates.back());
  };
  const Gate tiny = run("");
  EXPECT_TRUE(tiny.passed) << tiny.summary << ": a model in the cache is not judged by the roof";
  EXPECT_FALSE(run("rounds = 1\n[[point]]\nprompt = 8\ndecode_tps = 1e12").passed);
  EXPECT_TRUE(run("rounds = 1\ndecode_tokens = 4\n[[point]]\nprompt = 8\ndecode_tps = 0.001").passed);
  const Gate bad = run("[[point]]\nprompt = 8\ndecode_tps = -1");
  EXPECT_FALSE(bad.passed);
  EXPECT_NE(bad.summary.find("targets.toml"), std::string::npos) << bad.summary;
  EXPECT_NE(bad.summary.find("'decode_tps'"), std::string::npos) << bad.summary;
  const Gate wide = run("decode_tokens = 4\n[[point]]\nprompt = 8\nbatch = 400\ndecode_tps = 1");
  EXPECT_FALSE(wide.passed);
  EXPECT_NE(wide.summary.find("batch 400"), std::string::npos) << wide.summary;
  const Gate deep = run("[[point]]\nprompt = 8\ndepth = 100000\ndecode_tps = 1");
  EXPECT_FALSE(deep.passed);
  EXPECT_NE(deep.summary.find("positions"), std::string::npos) << deep.summary;
}

}  // namespace
}  // namespace firstlight::gates
