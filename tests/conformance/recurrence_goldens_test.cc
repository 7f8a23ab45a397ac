// SPDX-License-Identifier: Apache-2.0
// The gated delta rule, its convolution and its norm against what another engine's code gave (golden_case.h), composed
// from our operators and run on both backends: results and states.
#include "device/cpu/detect.h"
#include "golden_case.h"
#include "case.h"
#include "judge/run_case.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

class RecurrenceGoldens : public testing::TestWithParam<catalog::Backend> {
 protected:
  void SetUp() override {
    if (!Golden::is_present()) GTEST_SKIP() << "needs shared data: kernel-goldens";
  }

  Outcome run(Case c) {
    FL_CHECK(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
    const auto types = operand_types(c);
    const auto results = result_types(c);
    const auto* row =
        catalog::select_kernel(GetParam(), device::detect_cpu().features, {c.op, types, results, c.attributes});
    FL_CHECK(row != nullptr);
    return run_case(c, *row, catalog::ComputeMode::kF32, pool_).value();
  }
  Tensor map(const std::string& expr, std::vector<Tensor> operands) {
    return run({"", OpKind::kMap, attributes("{expr = " + expr + "}"), std::move(operands), {}, {}}).results[0];
  }
  Tensor l2_norm(const Tensor& x, double eps) {
    const Tensor squares = map("mul(x0, x0)", {x});
    const Tensor sum =
        run({"", OpKind::kReduce, attributes("{op = \"sum\", axis = -1, keep = true}"), {squares}, {}, {}}).results[0];
    return map("mul(x0, rsqrt(add(x1, " + ops::exact_decimal(eps) + ")))", {x, sum});
  }
  ThreadPool pool_{{2, false, 20}};
};

// The last two axes of [sequence, …, rows, columns] swapped, one list per sequence: states lie the other way round
// here.
std::vector<std::vector<float>> swapped(const Tensor& t) {
  const auto& shape = t.type.shape;
  const int64_t rows = shape[shape.size() - 2].factor, columns = shape.back().factor;
  const int64_t matrices = shape.size() == 4 ? shape[1].factor : 1;
  const std::vector<double> values = t.values();
  std::vector<std::vector<float>> out;
  for (int64_t s = 0; s < shape[0].factor; ++s) {
    auto& own = out.emplace_back();
    for (int64_t m = 0; m < matrices; ++m) {
      for (int64_t i = 0; i < columns * rows; ++i) {
        const int64_t at = ((s * matrices + m) * rows + i % rows) * columns + i / rows;
        own.push_back(static_cast<float>(values[static_cast<size_t>(at)]));
      }
    }
  }
  return out;
}

State fixed_state(const std::string& component, int64_t heads, int64_t width, std::vector<Sequence> sequences,
                  std::vector<std::vector<float>> rows) {
  State state;
  state.decl.name = "s.0";
  state.decl.kind = ops::StateKind::kFixed;
  state.decl.components = {{component, heads, width, DType::kF32}};
  state.page_rows = 1;
  state.sequences = std::move(sequences);
  state.rows = {std::move(rows)};
  return state;
}

// The component of every sequence, against the golden's.
void expect_state(const Golden& golden, const State& state, const Outcome& found) {
  const std::vector<std::vector<float>> wanted = swapped(golden.tensor("state_out"));
  ASSERT_EQ(found.pages.size(), wanted.size());
  for (size_t s = 0; s < wanted.size(); ++s) {
    const std::vector<double> values = fixed_component(state, 0, found.pages[s]);
    ASSERT_EQ(values.size(), wanted[s].size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = static_cast<double>(wanted[s][i]);
      ASSERT_NEAR(values[i], want, 1e-5 + 1e-5 * std::fabs(want)) << "sequence " << s << ", element " << i;
    }
  }
}

std::vector<Sequence> sequences_of(const Golden& golden) {
  std::vector<Sequence> sequences;
  for (const Json& length : golden.args()["seqlens"]) sequences.push_back({1, length.get<int64_t>(), 0});
  return sequences;
}

TEST_P(RecurrenceGoldens, L2Norm) {
  const Golden golden("l2norm_f32_small");
  golden.expect("out", l2_norm(golden.tensor("x"), golden.args()["eps"].get<double>()));
}

TEST_P(RecurrenceGoldens, CausalConv1d) {
  const Golden golden("causal_conv1d_fwd_f32_small");
  const int64_t channels = golden.args()["dim"].get<int64_t>(), kept = golden.args()["width"].get<int64_t>() - 1;
  auto rows = swapped(golden.tensor("conv_state_in"));
  const std::vector<double> has_state = golden.tensor("has_initial_state").values();
  for (size_t s = 0; s < rows.size(); ++s) {
    if (has_state[s] == 0) rows[s].assign(rows[s].size(), 0.0f);
  }
  const State state = fixed_state("conv", kept, channels, sequences_of(golden), std::move(rows));
  const Outcome found = run({"",
                             OpKind::kConv1d,
                             attributes("{component = \"conv\"}"),
                             {golden.tensor("x"), golden.tensor("weight"), Data::state()},
                             {state},
                             {}});
  golden.expect("out", map("mul(x0, sigmoid(x0))", {found.results[0]}));
  const auto wanted = swapped(golden.tensor("conv_state_out"));
  for (size_t s = 0; s < wanted.size(); ++s) {
    const std::vector<double> values = fixed_component(state, 0, found.pages[s]);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), wanted[s]) << s;
  }
}

Case delta_case(const Golden& golden, std::vector<Tensor> operands, std::vector<Sequence> sequences) {
  const Json& args = golden.args();
  State state = fixed_state("s", args["Hv"].get<int64_t>() * args["Dk"].get<int64_t>(), args["Dv"].get<int64_t>(),
                            std::move(sequences), swapped(golden.tensor("state_in")));
  operands.push_back(Data::state());
  return {"", OpKind::kRecurDelta, attributes("{component = \"s\"}"), std::move(operands), {std::move(state)}, {}};
}

TEST_P(RecurrenceGoldens, GatedDeltaPrefill) {
  const Golden golden("gdn_prefill_f32_small");
  const std::string scale = ops::exact_decimal(golden.args()["scale"].get<double>());
  const Case c = delta_case(golden,
                            {map("mul(x0, " + scale + ")", {golden.tensor("q")}), golden.tensor("k"),
                             golden.tensor("v"), golden.tensor("g"), golden.tensor("beta")},
                            sequences_of(golden));
  const Outcome found = run(c);
  golden.expect("out", found.results[0]);
  expect_state(golden, c.state[0], found);
}

// The whole chain from the raw projections: norms of q and k, gate and beta from a, b, A_log and dt_bias.
TEST_P(RecurrenceGoldens, GatedDeltaDecode) {
  const Golden golden("gdn_decode_f32_small");
  const std::string scale = ops::exact_decimal(golden.args()["scale"].get<double>());
  const Tensor q = l2_norm(golden.tensor("q"), 1e-6), k = l2_norm(golden.tensor("k"), 1e-6);
  golden.expect("q_l2", q);
  golden.expect("k_l2", k);
  const Tensor decay = map("mul(sub(0.0, exp(x0)), log1p(exp(add(x1, x2))))",
                           {golden.tensor("A_log"), golden.tensor("a"), golden.tensor("dt_bias")});
  golden.expect("g", decay);
  const Tensor beta = map("sigmoid(x0)", {golden.tensor("b")});
  golden.expect("beta", beta);
  const std::vector<Sequence> sequences(static_cast<size_t>(golden.args()["batch"].get<int64_t>()), Sequence{1, 1, 0});
  const Case c =
      delta_case(golden, {map("mul(x0, " + scale + ")", {q}), k, golden.tensor("v"), decay, beta}, sequences);
  const Outcome found = run(c);
  golden.expect("out", found.results[0]);
  expect_state(golden, c.state[0], found);
}

std::string backend_of(const testing::TestParamInfo<catalog::Backend>& param) {
  return std::string(catalog::backend_name(param.param));
}

INSTANTIATE_TEST_SUITE_P(Backends, RecurrenceGoldens,
                         testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu), backend_of);

}  // namespace
}  // namespace firstlight::conformance
