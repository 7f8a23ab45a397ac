// SPDX-License-Identifier: Apache-2.0
// Every row of the catalog against the reference body of its operator, on every case that it accepts; one test per row.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "case.h"
#include "catalog/attend_forms.h"
#include "compare.h"
#include "device/cpu/detect.h"
#include "formulas.h"
#include "judge/run_case.h"
#include "ledger.h"
#include "packed.h"

namespace firstlight::conformance {
namespace {

using catalog::Backend;
using catalog::ComputeMode;
using catalog::KernelRow;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = all_cases();
  return all;
}

const KernelRow* reference_row(const Case& c) {
  const auto operands = operand_types(c);
  const auto results = result_types(c);
  return catalog::select_kernel(Backend::kReference, {}, {c.op, operands, results, c.attributes});
}

class KernelRowTest : public testing::TestWithParam<KernelRow> {};

TEST_P(KernelRowTest, AgreesWithTheReference) {
  const KernelRow& row = GetParam();
  if (!device::detect_cpu().features.has(row.needs)) {
    GTEST_SKIP() << "needs a CPU with " << target::features_to_string(row.needs);
  }
  int ran = 0;
  Ledger ledger;
  for (const int threads : {1, 3}) {
    ThreadPool pool({threads, false, 20});
    for (const Case& c : cases()) {
      if (c.op != row.op) continue;
      auto wanted = run_case(c, *reference_row(c), ComputeMode::kF32, pool);
      ASSERT_TRUE(wanted.ok()) << wanted.status().message();
      std::vector<Case> forms = {c};
      if (auto form = packed(c)) forms.push_back(*std::move(form));
      for (const Case& form : forms) {
        const auto operands = operand_types(form);
        const auto results = result_types(c);
        for (const ComputeMode mode : {ComputeMode::kF32, ComputeMode::kBf16, ComputeMode::kInt8}) {
          if (!judge::computes_in(row, mode)) continue;
          if (!row.accepts({c.op, operands, results, c.attributes, mode})) continue;
          const std::string where = std::string(ops::op_name(c.op)) + " \"" + c.name + "\" " +
                                    std::string(catalog::compute_mode_name(mode)) + ", " + std::to_string(threads) +
                                    " threads";
          auto found = run_case(form, row, mode, pool);
          ASSERT_TRUE(found.ok()) << where << ": " << found.status().message();
          const Judgement judgement = judge_outcome(c, *found, *wanted, stated_limits(c, *wanted, mode));
          EXPECT_EQ(judgement.difference, "") << where;
          ledger.add(place_of(row), c, judgement);
          ++ran;
        }
      }
    }
  }
  ledger.record();
  EXPECT_TRUE(ran > 0 || row.op == ops::OpKind::kPackWeight) << "no case for this row";
}

std::vector<const KernelRow*> attend_forms() {
  std::vector<const KernelRow*> rows;
  for (const KernelRow& row : catalog::all_kernels()) {
    const bool is_form = row.backend == Backend::kCpu && row.op == ops::OpKind::kAttend && row.rank > 0;
    if (is_form && device::detect_cpu().features.has(row.needs)) rows.push_back(&row);
  }
  return rows;
}

// With queries that bfloat16 holds, only weights are rounded: no further off than 2^-8 of the largest value at worst,
// and in the mean what independent roundings leave.
TEST(AttendInBf16, RoundsWeightsAlone) {
  ThreadPool pool({2, false, 20});
  int compared = 0;
  for (const KernelRow* row : attend_forms()) {
    if (!catalog::attends_in_bf16(row->symbol)) continue;
    for (Case c : cases()) {
      if (c.op != row->op || c.state[0].decl.components[0].dtype != tensor::DType::kBF16) continue;
      if (c.attributes.get_float("scale") != 0.25 || c.operands[0].data.empty()) continue;
      for (size_t i = 0; i < c.operands[0].data.size(); i += 4) {
        c.operands[0].data[i] = c.operands[0].data[i + 1] = std::byte{0};
      }
      const auto wanted = run_case(c, *reference_row(c), ComputeMode::kF32, pool);
      const auto found = run_case(c, *row, ComputeMode::kBf16, pool);
      ASSERT_TRUE(wanted.ok() && found.ok());
      double top = 0, squares = 0;
      for (const auto& rows : c.state[0].rows.back()) {
        for (const float v : rows) top = std::max(top, std::fabs(static_cast<double>(v)));
      }
      const auto a = wanted->results[0].values(), b = found->results[0].values();
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_LE(std::fabs(a[i] - b[i]), top * 0x1p-8 + 1e-5) << c.name << " element " << i;
        squares += (a[i] - b[i]) * (a[i] - b[i]) / static_cast<double>(a.size());
      }
      EXPECT_LE(std::sqrt(squares), top * 0x1p-9) << c.name;
      ++compared;
    }
  }
  EXPECT_TRUE(compared >= 8 || !device::detect_cpu().features.has(target::Features{target::kAvx512Bf16}));
}

// The last token of a case's first sequence alone, all before it in the state.
Case last_token_of(const Case& c) {
  Case one = c;
  Sequence& sequence = one.state[0].sequences[0];
  const int64_t before = sequence.num_tokens - 1;
  sequence.start_position += before;
  sequence.num_tokens = 1;
  tensor::Type& type = one.operands[0].type;
  const auto bytes = static_cast<int64_t>(one.operands[0].data.size()) / type.shape[0].factor;
  auto& data = one.operands[0].data;
  data.erase(data.begin(), data.begin() + before * bytes);
  type.shape[0] = tensor::Dim(1);
  return one;
}

// A token's bits are the same in a prompt, alone, and on any number of threads.
TEST(AttendForms, GiveATokenTheSameBitsEverywhere) {
  ThreadPool one_thread({1, false, 20}), three({3, false, 20});
  for (const KernelRow* row : attend_forms()) {
    const auto mode = catalog::attends_in_bf16(row->symbol) ? ComputeMode::kBf16 : ComputeMode::kF32;
    int compared = 0;
    for (const Case& c : cases()) {
      if (c.op != row->op || c.state[0].sequences.size() != 1 || c.state[0].sequences[0].num_tokens == 0) continue;
      const Case last = last_token_of(c);
      const auto all = run_case(c, *row, mode, one_thread)->results[0].data;
      EXPECT_TRUE(run_case(c, *row, mode, three)->results[0].data == all) << row->symbol << " " << c.name;
      for (ThreadPool* pool : {&one_thread, &three}) {
        const auto found = run_case(last, *row, mode, *pool)->results[0].data;
        EXPECT_TRUE(std::equal(found.rbegin(), found.rend(), all.rbegin())) << row->symbol << " " << c.name;
      }
      ++compared;
    }
    EXPECT_GT(compared, 20);
  }
}

// Nor do values that are no numbers change them where the token does not see these, whoever beside it does.
TEST(AttendForms, GiveATokenTheSameBitsBesideValuesThatAreNoNumbers) {
  ThreadPool pool({1, false, 20});
  int compared = 0;
  for (const KernelRow* row : attend_forms()) {
    const auto mode = catalog::attends_in_bf16(row->symbol) ? ComputeMode::kBf16 : ComputeMode::kF32;
    for (Case c : cases()) {
      if (c.op != row->op || c.name != "parts in a window") continue;  // its last token sees rows 940 to 1,539
      constexpr size_t kRowFloats = 2 * 32;
      auto& values = c.state[0].rows.back()[0];
      values[930 * kRowFloats + 5] = values[930 * kRowFloats + 37] = std::numeric_limits<float>::quiet_NaN();
      const auto all = run_case(c, *row, mode, pool)->results[0].data;
      const auto found = run_case(last_token_of(c), *row, mode, pool)->results[0].data;
      EXPECT_TRUE(std::equal(found.rbegin(), found.rend(), all.rbegin())) << row->symbol;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

// What runs on the host; devices_test.cc has the rows of devices with memory of their own.
std::vector<KernelRow> host_rows() {
  std::vector<KernelRow> rows;
  for (const KernelRow& row : catalog::all_kernels()) {
    if (row.backend == Backend::kReference || row.backend == Backend::kCpu) rows.push_back(row);
  }
  return rows;
}

std::string row_name(const testing::TestParamInfo<KernelRow>& info) {
  return std::string(info.param.symbol) + "_on_" + std::string(catalog::backend_name(info.param.backend));
}

INSTANTIATE_TEST_SUITE_P(Catalog, KernelRowTest, testing::ValuesIn(host_rows()), row_name);

// The reference bodies themselves, against formulas written apart.
TEST(Reference, AgreesWithTheFormulas) {
  ThreadPool pool({2, false, 20});
  int compared = 0;
  for (const Case& c : cases()) {
    Values wanted = formula(c);
    if (wanted.empty()) continue;
    for (auto& values : wanted) {
      for (double& v : values) {
        if (std::fabs(v) > static_cast<double>(std::numeric_limits<float>::max())) v *= HUGE_VAL;  // float32 ends there
      }
    }
    auto found = run_case(c, *reference_row(c), ComputeMode::kF32, pool);
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(found->results.size(), wanted.size());
    const Values tolerance = c.op == ops::OpKind::kFusedLinear ? product_tolerance(c, ComputeMode::kF32) : Values{};
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::string difference = first_difference(found->results[i].values(), wanted[i], {1e-12, 1.2e-7},
                                                      tolerance.empty() ? nullptr : &tolerance[i]);
      EXPECT_EQ(difference, "") << ops::op_name(c.op) << " \"" << c.name << "\" result " << i;
    }
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST(Reference, AppendWritesItsRowsAndNothingElse) {
  ThreadPool pool({2, false, 20});
  for (const Case& c : state_cases()) {
    State after = c.state[0];
    for (size_t k = 0; k < after.decl.components.size(); ++k) {
      const std::vector<double> rows = c.operands[k + 1].values();
      const auto width = static_cast<size_t>(after.decl.components[k].heads * after.decl.components[k].width);
      size_t token = 0;
      for (size_t s = 0; s < after.sequences.size(); ++s) {
        const Sequence& sequence = after.sequences[s];
        const int64_t rate = after.decl.kind == ops::StateKind::kRateLog ? after.decl.rate : 1;
        const int64_t first = sequence.start_position / rate;
        const int64_t count = (sequence.start_position + sequence.num_tokens) / rate - first;
        for (int64_t i = 0; i < count; ++i, ++token) {
          for (size_t e = 0; e < width; ++e) {
            after.rows[k][s][static_cast<size_t>(first + i) * width + e] = static_cast<float>(rows[token * width + e]);
          }
        }
      }
    }
    auto found = run_case(c, *reference_row(c), ComputeMode::kF32, pool);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->pages == page_contents(after)) << c.name;
  }
}

// Moving operators byte by byte, against index arithmetic on whole elements or blocks.
TEST(Reference, MovesWhatTheFormulasSay) {
  ThreadPool pool({2, false, 20});
  const auto run = [&](const Case& c) {
    return run_case(c, *reference_row(c), ComputeMode::kF32, pool).value().results[0].values();
  };
  for (const Case& c : data_cases()) {
    Case checked = c;
    ASSERT_TRUE(ops::check_attributes(ops::op_def(c.op), checked.attributes).ok());
    const auto x = checked.operands[0].values();
    const auto type = result_types(checked)[0];
    std::vector<double> wanted;
    const auto& shape = checked.operands[0].type.shape;
    switch (c.op) {
      case ops::OpKind::kReshape:
        wanted = x;
        break;
      case ops::OpKind::kTranspose: {
        const auto& perm = checked.attributes.get_ints("perm");
        for (int64_t i = 0; i < tensor::num_elements(type.shape); ++i) {
          int64_t rest = i;
          std::vector<int64_t> index(shape.size());
          for (size_t a = shape.size(); a-- > 0;) {
            index[static_cast<size_t>(perm[a])] = rest % type.shape[a].factor;
            rest /= type.shape[a].factor;
          }
          int64_t from = 0;
          for (size_t a = 0; a < shape.size(); ++a) from = from * shape[a].factor + index[a];
          wanted.push_back(x[static_cast<size_t>(from)]);
        }
        break;
      }
      case ops::OpKind::kSlice: {
        const auto axis =
            static_cast<size_t>(ops::resolve_axis(checked.attributes.get_int("axis"), static_cast<int>(shape.size())));
        const auto range = ops::slice_range(checked.attributes, shape[axis].factor);
        int64_t inner = 1;
        for (size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a].factor;
        for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
          const int64_t place = i / inner % shape[axis].factor;
          const bool taken = place >= range.start && place < range.stop && (place - range.start) % range.step == 0;
          if (taken) wanted.push_back(x[static_cast<size_t>(i)]);
        }
        break;
      }
      default:
        continue;
    }
    EXPECT_EQ(first_difference(run(checked), wanted, {0, 0}, nullptr), "") << ops::op_name(c.op) << " " << c.name;
  }
  // concat and stack undo what slice takes apart
  Data data(77);
  const Tensor a = data.floats(tensor::DType::kQ8_0, {3, 64});
  const Tensor b = data.floats(tensor::DType::kQ8_0, {3, 32});
  const auto whole = run_case({"", ops::OpKind::kConcat, attributes("{axis = 1}"), {a, b}, {}, {}},
                              *catalog::select_kernel(Backend::kReference, {}, {ops::OpKind::kConcat, {}, {}, {}}),
                              ComputeMode::kF32, pool)
                         .value()
                         .results[0];
  Case back{"", ops::OpKind::kSlice, attributes("{axis = 1, start = 64}"), {whole}, {}, {}};
  ASSERT_TRUE(ops::check_attributes(ops::op_def(back.op), back.attributes).ok());
  EXPECT_EQ(run(back), b.values());
}

}  // namespace
}  // namespace firstlight::conformance
