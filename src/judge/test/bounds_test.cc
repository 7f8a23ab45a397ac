// SPDX-License-Identifier: Apache-2.0
// Bounds worked out from a call where no case states one: what a correct kernel may do lies inside, what lies just
// outside is told. (The bounds of all operators are exercised by tests/conformance.)
#include "judge/bounds.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "judge/verdict.h"
#include "ops/attributes.h"

namespace firstlight::judge {
namespace {

using catalog::ComputeMode;

Tensor drawn(tensor::Shape shape, uint32_t seed) {
  Tensor t{tensor::Type::tensor(tensor::DType::kF32, std::move(shape)), {}};
  t.data.resize(static_cast<size_t>(tensor::size_bytes(t.type)));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < t.data.size(); i += 4) {
    const float v = normal(random);
    std::memcpy(t.data.data() + i, &v, 4);
  }
  return t;
}

Outcome reference(const Case& c) {
  const auto operands = operand_types(c), results = result_types(c);
  ThreadPool pool({1, false, 0});
  const auto* row = catalog::select_kernel(catalog::Backend::kReference, {}, {c.op, operands, results, c.attributes});
  return run_case(c, *row, ComputeMode::kF32, pool).value();
}

void move(Outcome& outcome, size_t element, double by) {
  float v = 0;
  std::memcpy(&v, outcome.results[0].data.data() + 4 * element, 4);
  v = static_cast<float>(static_cast<double>(v) + by);
  std::memcpy(outcome.results[0].data.data() + 4 * element, &v, 4);
}

// Moved by half of its room an element passes, by twice it the case fails.
void expect_tight(const Case& c, ComputeMode mode) {
  const Outcome wanted = reference(c);
  const Limits limits = derived_limits(c, wanted, mode, false);
  ASSERT_FALSE(limits.results.empty());
  const double value = wanted.results[0].values()[3], room = limits.results[0][3].high - value;
  ASSERT_GT(room, 0);
  EXPECT_EQ(judge_outcome(c, wanted, wanted, limits).difference, "");
  Outcome found = wanted;
  move(found, 3, room / 2);
  const Judgement inside = judge_outcome(c, found, wanted, limits);
  EXPECT_EQ(inside.difference, "");
  EXPECT_NEAR(inside.worst, 0.5, 0.2);
  move(found, 3, 1.5 * room);
  EXPECT_NE(judge_outcome(c, found, wanted, limits).difference, "");
}

Case product(ComputeMode mode) {
  Case c{.name = "product", .op = ops::OpKind::kLinear, .attributes = {}, .operands = {}, .state = {}};
  c.attributes.set("compute", std::string(catalog::compute_mode_name(mode)));
  EXPECT_TRUE(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
  c.operands = {drawn({5, 64}, 1), drawn({7, 64}, 2)};
  c.bound = {0, 0};
  return c;
}

TEST(Bounds, AProductIsBoundedByItsMode) {
  double before = 0;
  for (const auto mode : {ComputeMode::kF32, ComputeMode::kBf16, ComputeMode::kInt8}) {
    const Case c = product(mode);
    expect_tight(c, mode);
    const Outcome wanted = reference(c);
    const double room = derived_limits(c, wanted, mode, false).results[0][3].high - wanted.results[0].values()[3];
    EXPECT_GT(room, before);
    before = room;
  }
}

State keys(int64_t tokens) {
  State state;
  state.decl.name = "kv";
  state.decl.components = {{.name = "k", .heads = 2, .width = 16}, {.name = "v", .heads = 2, .width = 16}};
  state.sequences = {{.start_position = tokens - 3, .num_tokens = 3, .planned_length = tokens}};
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int part = 0; part < 2; ++part) {
    state.rows.push_back({std::vector<float>(static_cast<size_t>(tokens * 2 * 16))});
    for (float& v : state.rows.back()[0]) v = normal(random);
  }
  return state;
}

TEST(Bounds, AttentionIsBoundedByItsKeysAndValues) {
  Case c{.name = "attend", .op = ops::OpKind::kAttend, .attributes = {}, .operands = {}, .state = {}};
  c.attributes = ops::parse_attributes(R"({scale = 0.25, key = "k", value = "v"})").value();
  ASSERT_TRUE(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
  c.operands = {drawn({3, 4, 16}, 3), {tensor::Type::state(), {}}};
  c.state = {keys(40)};
  c.bound = {0, 0};
  expect_tight(c, ComputeMode::kF32);
}

}  // namespace
}  // namespace firstlight::judge
