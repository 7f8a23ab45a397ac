// SPDX-License-Identifier: Apache-2.0
// Every case that CPU source can be generated for, and what hostile.h makes of it: one translation unit of all of them,
// built by the host's compiler, each function against the reference body within the case's bound.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "compiler/codegen/cpu_source.h"
#include "device/cpu/native_code.h"
#include "hostile.h"
#include "ledger.h"
#include "plan/plan.h"

namespace firstlight::conformance {
namespace {

struct Generated {
  Case c;
  std::string name;
  bool rows;
  bool is_hostile;
};

// All cases; of those that values alone were changed in all variants, of those of other sizes the first kind's of each
// operator, since each is a function of its own.
std::vector<std::pair<Case, bool>> cases_for_generated() {
  std::vector<std::pair<Case, bool>> all;
  std::set<ops::OpKind> sized;
  for (const Case& c : all_cases()) {
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    if (!compiler::cpu_function({c.op, operands, results, c.attributes}).ok()) continue;
    all.emplace_back(c, false);
    std::set<std::string> seen;
    const bool with_sizes = sized.insert(c.op).second;
    for (Variant& variant : hostile_variants(c, seen)) {
      if (with_sizes || variant.operand >= 0) all.emplace_back(std::move(variant.c), true);
    }
  }
  return all;
}

std::vector<float> floats(const Tensor& t) {
  const auto values = t.values();
  return {values.begin(), values.end()};
}

// In two parts, as two workers would.
std::vector<float> run(const Generated& g, plan::GeneratedFunction function, const tensor::Type& result) {
  std::vector<std::vector<float>> operands;
  for (const Tensor& t : g.c.operands) operands.push_back(floats(t));
  std::vector<const float*> in;
  for (const auto& operand : operands) in.push_back(operand.data());
  const int64_t elements = tensor::num_elements(result.shape);
  std::vector<float> out(static_cast<size_t>(elements) + 16, 12345.0f);
  std::vector<int64_t> dims;
  for (const tensor::Dim& dim : result.shape) dims.push_back(dim.factor);
  const tensor::Shape& counted =
      g.c.op == ops::OpKind::kMap || g.c.op == ops::OpKind::kFusedRows ? result.shape : g.c.operands[0].type.shape;
  const int64_t width = counted.empty() ? 1 : counted.back().factor;
  const int64_t all = tensor::num_elements(counted);
  const int64_t total = g.rows ? (width == 0 ? 0 : all / width) : elements;
  const int64_t half = total / 2;
  if (half > 0) function(in.data(), out.data(), dims.data(), 0, half);
  if (total > half) function(in.data(), out.data(), dims.data(), half, total);
  for (size_t i = static_cast<size_t>(elements); i < out.size(); ++i) EXPECT_EQ(out[i], 12345.0f) << g.c.name;
  out.resize(static_cast<size_t>(elements));
  return out;
}

TEST(Generated, AgreesWithTheReference) {
  const auto compiler = device::HostCompiler::find();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  compiler::CpuUnit unit;
  std::vector<Generated> all;
  for (auto& [c, is_hostile] : cases_for_generated()) {
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    auto function = compiler::cpu_function({c.op, operands, results, c.attributes});
    if (!function.ok()) continue;
    const bool rows = function->rows;
    all.push_back({std::move(c), unit.add(*std::move(function)), rows, is_hostile});
  }
  ASSERT_GT(all.size(), 40u);
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("generated-" + std::to_string(::getpid()));
  const auto code = device::NativeCodeBuilder::open(folder).value().build(unit.text());
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(code.ok()) << code.status().message();
  ThreadPool pool({1, false, 20});
  Ledger ledger;
  for (const Generated& g : all) {
    const auto function = reinterpret_cast<plan::GeneratedFunction>((*code)->symbol(g.name.c_str()));
    ASSERT_NE(function, nullptr) << g.name;
    const auto operands = operand_types(g.c);
    const auto results = result_types(g.c);
    const auto* row =
        catalog::select_kernel(catalog::Backend::kReference, {}, {g.c.op, operands, results, g.c.attributes});
    const Outcome wanted = run_case(g.c, *row, catalog::ComputeMode::kF32, pool).value();
    Outcome found = wanted;
    found.results[0] = Data::from(results[0].shape, run(g, function, results[0]));
    const Limits limits = g.is_hostile ? derived_limits(g.c, wanted, catalog::ComputeMode::kF32, false)
                                       : stated_limits(g.c, wanted, catalog::ComputeMode::kF32);
    const Judgement judgement = judge_outcome(g.c, found, wanted, limits);
    EXPECT_EQ(judgement.difference, "") << ops::op_name(g.c.op) << " \"" << g.c.name << "\"";
    ledger.add("generated", g.c, judgement);
  }
  ledger.record();
}

}  // namespace
}  // namespace firstlight::conformance
