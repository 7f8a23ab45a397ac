// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/cpu/vector_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/common/cpu/expression_program.h"

namespace firstlight::kernels {
namespace {

using ops::ExprOp;

struct OpsCase {
  const char* name;
  const VectorOps* ops;
};
std::vector<OpsCase> cases() {
  std::vector<OpsCase> all = {{"avx2", &vector_ops_avx2()}};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16")) {
    all.push_back({"avx512", &vector_ops_avx512()});
  }
  return all;
}

double exact(ExprOp op, double a, double b, double c) {
  ops::Expression expression;
  const int32_t args[3] = {expression.input(0), expression.input(1), expression.input(2)};
  const int arity = ops::expr_op_arity(op);
  expression.set_result(expression.apply(op, args[0], arity > 1 ? args[1] : -1, arity > 2 ? args[2] : -1));
  // set_result drops what is not used, but input numbers stay.
  const double inputs[3] = {a, b, c};
  return expression.evaluate(inputs);
}

// Within `ulps` units in the last place of the exact value; subnormal results absolutely.
void expect_close(const OpsCase& test, ExprOp op, float a, float b, float c, float got, double ulps) {
  const double want = exact(op, a, b, c);
  SCOPED_TRACE(testing::Message() << test.name << " " << ops::expr_op_name(op) << "(" << a << ", " << b << ", " << c
                                  << ")");
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << got;
  } else if (std::abs(want) > std::numeric_limits<float>::max()) {
    EXPECT_GE(std::abs(got), std::numeric_limits<float>::max());
    EXPECT_EQ(std::signbit(got), std::signbit(want));
  } else {
    EXPECT_NEAR(got, want, ulps * 0x1p-23 * std::abs(want) + 0x1p-148);
  }
}

void check(ExprOp op, std::vector<float> a, double ulps) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float special : {0.0f, -0.0f, 1.0f, -1.0f, infinity, -infinity, std::nanf(""), 1e-40f, -1e-40f, 88.7f, 88.8f,
                        -87.4f, -103.0f, -104.5f, 1e30f, -1e30f, 0.55f, 0.5499f}) {
    a.push_back(special);
  }
  while (a.size() % 16 != 0) a.push_back(0.25f);
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> b(a.size());
  std::vector<float> c(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    b[i] = i % 5 == 0 ? a[i] : normal(rng);
    c[i] = normal(rng);
  }
  for (const OpsCase& test : cases()) {
    std::vector<float> out(a.size());
    test.ops->apply(op, a.data(), b.data(), c.data(), out.data(), static_cast<int64_t>(a.size()));
    for (size_t i = 0; i < a.size(); ++i) expect_close(test, op, a[i], b[i], c[i], out[i], ulps);
  }
}

std::vector<float> samples(double low, double high) {
  std::mt19937 rng(5);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<float> values(4096);
  for (float& value : values) value = static_cast<float>(uniform(rng));
  return values;
}

TEST(VectorOps, ExactOnesRoundOnce) {
  for (ExprOp op :
       {ExprOp::kAdd, ExprOp::kSub, ExprOp::kMul, ExprOp::kDiv, ExprOp::kMin, ExprOp::kMax, ExprOp::kNeg, ExprOp::kAbs,
        ExprOp::kSign, ExprOp::kFloor, ExprOp::kSqrt, ExprOp::kLt, ExprOp::kLe, ExprOp::kEq, ExprOp::kWhere}) {
    check(op, samples(-8, 8), 0.5);
  }
  check(ExprOp::kRsqrt, samples(0, 8), 2);
}

TEST(VectorOps, ElementaryFunctionsWithinFourUnits) {
  check(ExprOp::kExp, samples(-104, 89), 4);
  check(ExprOp::kExp, samples(-1, 1), 4);
  check(ExprOp::kLog, samples(0, 4), 4);
  check(ExprOp::kLog, samples(0, 1e20), 4);
  check(ExprOp::kTanh, samples(-1, 1), 4);
  check(ExprOp::kTanh, samples(-12, 12), 4);
  check(ExprOp::kSigmoid, samples(-88, 30), 4);
  for (ExprOp op : {ExprOp::kExpm1, ExprOp::kLog1p, ExprOp::kErf, ExprOp::kSin, ExprOp::kCos})
    check(op, samples(-0.9, 5), 4);
}

TEST(ExpressionProgram, EqualsTheFloat64Form) {
  const char* formulas[] = {
      "mul(mul(x0, sigmoid(x0)), x1)",
      "mul(mul(mul(0.5, x0), add(1, tanh(mul(0.7978845608, add(x0, mul(0.044715, mul(x0, mul(x0, x0)))))))), x1)",
      "add(x0, x2)",
      "x1",
      "2.5",
      "where(lt(x0, x1), mul(min(max(x0, -7), 7), add(x1, 1)), neg(x2))",
      "mul(add(x0, x1), add(x0, x1))",
  };
  std::vector<std::vector<float>> inputs = {samples(-3, 3), samples(-3, 3), samples(-3, 3)};
  std::shuffle(inputs[1].begin(), inputs[1].end(), std::mt19937(1));
  std::shuffle(inputs[2].begin(), inputs[2].end(), std::mt19937(2));
  const int64_t count = 4096 - 16;  // not a whole number of chunks
  for (const char* formula : formulas) {
    const ops::Expression expression = ops::Expression::parse(formula).value();
    const ExpressionProgram program(expression);
    for (const OpsCase& test : cases()) {
      std::vector<float> out(4096);
      std::vector<float> scratch(static_cast<size_t>(program.scratch_floats()));
      const float* arrays[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
      program.run(*test.ops, arrays, count, scratch.data(), out.data());
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const double values[] = {inputs[0][i], inputs[1][i], inputs[2][i]};
        ASSERT_NEAR(out[i], expression.evaluate(values), 1e-6 * (3 + std::abs(expression.evaluate(values))))
            << formula << " " << test.name << " " << i;
      }
    }
  }
}

// A result may go where an input lies.
TEST(ExpressionProgram, MayWriteOverAnInput) {
  const ops::Expression expression = ops::Expression::parse("sub(mul(x0, x1), x0)").value();
  const ExpressionProgram program(expression);
  std::vector<float> a = samples(-2, 2);
  const std::vector<float> before = a;
  std::vector<float> scratch(static_cast<size_t>(program.scratch_floats()));
  const float* arrays[] = {a.data(), before.data()};
  program.run(vector_ops_avx2(), arrays, 4096, scratch.data(), a.data());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], before[i] * before[i] - before[i]);
}

}  // namespace
}  // namespace firstlight::kernels
