// SPDX-License-Identifier: Apache-2.0
// Every row of the host's backends against the reference body on cases with hostile values, sizes and batches, one test
// per operator; and what a single broken element may reach in the reference itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compare.h"
#include "device/cpu/detect.h"
#include "formulas.h"
#include "hostile.h"
#include "ledger.h"
#include "packed.h"

namespace firstlight::conformance {
namespace {

using catalog::Backend;
using catalog::ComputeMode;
using catalog::KernelRow;

class HostileTest : public testing::TestWithParam<ops::OpKind> {
 protected:
  void run(const Case& c, const KernelRow& row, ComputeMode mode, const Case& form, const Outcome& wanted) {
    const std::string where = std::string(row.symbol) + " \"" + c.name + "\" " + std::string(compute_mode_name(mode));
    const auto found = run_case(form, row, mode, pool_);
    Judgement judgement;
    if (found.ok()) {
      const auto [at, is_new] = limits_.try_emplace(mode);
      if (is_new) at->second = derived_limits(c, wanted, mode, false);
      judgement = judge_outcome(c, *found, wanted, at->second);
    } else {
      judgement.difference = found.status().message();
    }
    ledger_.add(place_of(row), c, judgement);
    EXPECT_EQ(judgement.difference, "") << where;
  }

  void run_all(const Case& c) {
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    const auto* judge_row = catalog::select_kernel(Backend::kReference, {}, {c.op, operands, results, c.attributes});
    const auto wanted = run_case(c, *judge_row, ComputeMode::kF32, pool_);
    ASSERT_TRUE(wanted.ok()) << c.name << ": " << wanted.status().message();
    limits_.clear();
    std::vector<Case> forms = {c};
    if (auto form = packed(c)) forms.push_back(*std::move(form));
    for (const KernelRow& row : catalog::all_kernels()) {
      const bool on_host = row.backend == Backend::kReference || row.backend == Backend::kCpu;
      if (row.op != c.op || !on_host || !features_.has(row.needs)) continue;
      for (const Case& form : forms) {
        const auto types = operand_types(form);
        for (const ComputeMode mode : {ComputeMode::kF32, ComputeMode::kBf16, ComputeMode::kInt8}) {
          if (!judge::computes_in(row, mode)) continue;
          if (row.accepts({c.op, types, results, c.attributes, mode})) run(c, row, mode, form, *wanted);
        }
      }
    }
  }

  ThreadPool pool_{{2, false, 20}};
  const target::Features features_ = device::detect_cpu().features;
  std::map<ComputeMode, Limits> limits_;
  Ledger ledger_;
};

TEST_P(HostileTest, RowsAgreeWithTheReference) {
  for (const Variant& variant : hostile_cases(GetParam())) run_all(variant.c);
  ledger_.record();
}

std::vector<ops::OpKind> operators_with_cases() {
  std::vector<ops::OpKind> kinds;
  for (const Case& c : all_cases()) {
    if (std::find(kinds.begin(), kinds.end(), c.op) == kinds.end()) kinds.push_back(c.op);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Catalog, HostileTest, testing::ValuesIn(operators_with_cases()),
                         [](const auto& tested) { return std::string(ops::op_name(tested.param)); });

// Rows (of the first axis) whose bits changed.
std::set<int64_t> changed_rows(const Tensor& a, const Tensor& b) {
  std::set<int64_t> rows;
  const int64_t count = a.type.shape.empty() ? 1 : a.type.shape[0].factor;
  const size_t size = count == 0 ? 1 : a.data.size() / static_cast<size_t>(count);
  for (size_t i = 0; i < a.data.size(); ++i) {
    if (a.data[i] != b.data[i]) rows.insert(static_cast<int64_t>(i / size));
  }
  return rows;
}

// The rows that row `row` may reach: itself, and where there is a state what follows it in its sequence.
std::pair<int64_t, int64_t> reach_of(const Case& c, int64_t row) {
  if (c.state.empty() || ops::op_def(c.op).elementwise_rows) return {row, row + 1};
  int64_t first = 0;
  for (const Sequence& s : c.state[0].sequences) {
    if (row < first + s.num_tokens) return {row, first + s.num_tokens};
    first += s.num_tokens;
  }
  return {row, row + 1};
}

TEST(Reference, ABrokenElementSpoilsItsOwnRowAndWhatFollowsIt) {
  ThreadPool pool({2, false, 20});
  int checked = 0;
  std::set<std::string> seen;
  for (const Case& c : all_cases()) {
    const bool by_rows = ops::op_def(c.op).elementwise_rows || !c.state.empty();
    if (!by_rows || c.operands.empty()) continue;
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    const auto* row = catalog::select_kernel(Backend::kReference, {}, {c.op, operands, results, c.attributes});
    for (const Variant& variant : hostile_variants(c, seen)) {
      if (variant.operand < 0 || variant.row < 0 || results.empty() || results[0].is_state()) continue;
      const tensor::Shape& own = c.operands[static_cast<size_t>(variant.operand)].type.shape;
      const bool has_rows = !own.empty() && !results[0].shape.empty() && own.size() >= 2 &&
                            own[0] == results[0].shape[0] && variant.operand != 1;
      if (!has_rows) continue;
      const auto clean = run_case(c, *row, ComputeMode::kF32, pool);
      const auto spoiled = run_case(variant.c, *row, ComputeMode::kF32, pool);
      ASSERT_TRUE(clean.ok() && spoiled.ok());
      const auto [first, end] = reach_of(c, variant.row);
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i].is_state()) continue;
        for (const int64_t changed : changed_rows(clean->results[i], spoiled->results[i])) {
          EXPECT_TRUE(changed >= first && changed < end) << ops::op_name(c.op) << " \"" << variant.c.name << "\": row "
                                                         << variant.row << " reaches row " << changed;
        }
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 300);
}

}  // namespace
}  // namespace firstlight::conformance
