// SPDX-License-Identifier: Apache-2.0
#include "ops/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace firstlight::ops {
namespace {

double value_of(std::string_view text, std::vector<double> inputs) {
  auto e = Expression::parse(text);
  EXPECT_TRUE(e.ok()) << text;
  return e.ok() ? e->evaluate(inputs) : 0;
}

TEST(Expression, BuildersShareEqualTerms) {
  Expression e;
  const auto x = e.input(0);
  const auto a = e.apply(ExprOp::kExp, x);
  const auto b = e.apply(ExprOp::kExp, e.input(0));
  EXPECT_EQ(a, b);
  e.apply(ExprOp::kMul, a, b);
  EXPECT_EQ(e.terms().size(), 3u);
  EXPECT_EQ(e.to_string(), "(t0 = exp(x0); mul(t0, t0))");
}

TEST(Expression, ConstantsKeepTheirBits) {
  Expression e;
  EXPECT_NE(e.constant(0.0), e.constant(-0.0));
  EXPECT_EQ(e.constant(std::nan("")), e.constant(std::nan("")));
}

TEST(Expression, SetResultDropsUnusedTerms) {
  Expression e;
  const auto x = e.input(0);
  e.constant(5);
  const auto y = e.apply(ExprOp::kNeg, x);
  e.apply(ExprOp::kExp, y);
  e.set_result(y);
  EXPECT_EQ(e.terms().size(), 2u);
  EXPECT_EQ(e.to_string(), "neg(x0)");
}

TEST(Expression, InlinedReplacesInputs) {
  const Expression silu = Expression::parse("mul(x0, sigmoid(x0))").value();
  Expression e;
  const std::vector<int32_t> inputs = {e.apply(ExprOp::kAdd, e.input(1), e.constant(2))};
  e.set_result(e.inlined(silu, inputs));
  EXPECT_EQ(e.to_string(), "(t0 = add(x1, 2.0); mul(t0, sigmoid(t0)))");
  EXPECT_EQ(e.num_inputs(), 2);
}

TEST(Expression, EvaluatesEveryOperation) {
  EXPECT_EQ(value_of("add(x0, x1)", {1, 2}), 3);
  EXPECT_EQ(value_of("sub(x0, x1)", {1, 2}), -1);
  EXPECT_EQ(value_of("div(x0, x1)", {1, 2}), 0.5);
  EXPECT_EQ(value_of("min(x0, x1)", {1, 2}), 1);
  EXPECT_EQ(value_of("max(x0, x1)", {1, 2}), 2);
  EXPECT_TRUE(std::isnan(value_of("max(x0, x1)", {1, std::nan("")})));
  EXPECT_TRUE(std::isnan(value_of("min(x0, x1)", {std::nan(""), 1})));
  EXPECT_EQ(value_of("pow(x0, x1)", {2, 10}), 1024);
  EXPECT_EQ(value_of("neg(abs(x0))", {-3}), -3);
  EXPECT_EQ(value_of("sign(x0)", {-3}), -1);
  EXPECT_EQ(value_of("sign(x0)", {0}), 0);
  EXPECT_EQ(value_of("floor(x0)", {-1.5}), -2);
  EXPECT_EQ(value_of("expm1(x0)", {1e-9}), std::expm1(1e-9));
  EXPECT_EQ(value_of("log1p(log(x0))", {3}), std::log1p(std::log(3.0)));
  EXPECT_EQ(value_of("rsqrt(sqrt(x0))", {16}), 0.5);
  EXPECT_EQ(value_of("tanh(x0)", {0.3}), std::tanh(0.3));
  EXPECT_EQ(value_of("erf(x0)", {0.3}), std::erf(0.3));
  EXPECT_EQ(value_of("sin(cos(x0))", {0.3}), std::sin(std::cos(0.3)));
  EXPECT_EQ(value_of("add(lt(x0, x1), add(le(x0, x1), eq(x0, x1)))", {2, 2}), 2);
  EXPECT_EQ(value_of("where(lt(x0, 0.0), x0, x1)", {-1, 7}), -1);
  EXPECT_EQ(value_of("where(lt(x0, 0.0), x0, x1)", {1, 7}), 7);
}

TEST(Expression, TextReadsBackExactly) {
  for (const char* text : {"x0", "1e-05", "-inf", "nan", "mul(x0, sigmoid(x0))", "(t0 = exp(x0); mul(t0, t0))", "()",
                           "add(x3, 0.1)", "5e-324", "1.7976931348623157e+308"}) {
    auto e = Expression::parse(text);
    ASSERT_TRUE(e.ok()) << text << ": " << e.status().message();
    EXPECT_EQ(e->to_string(), text);
    EXPECT_EQ(Expression::parse(e->to_string()).value(), *e);
  }
}

TEST(Expression, DeepAndWideFormulasStayReadable) {
  Expression e;
  auto x = e.input(0);
  for (int i = 0; i < 2000; ++i) x = e.apply(i % 2 == 0 ? ExprOp::kNeg : ExprOp::kSqrt, x);
  for (int i = 0; i < 1000; ++i) x = e.apply(ExprOp::kMul, x, x);
  const std::string text = e.to_string();
  EXPECT_LT(text.size(), 60000u);
  auto back = Expression::parse(text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, e);
}

TEST(Expression, RandomFormulasReadBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Expression e;
    std::vector<int32_t> made = {e.input(0), e.input(1),
                                 e.constant(std::ldexp(static_cast<double>(1 + random() % 1000), -5))};
    for (int i = 0; i < 20; ++i) {
      const auto op = static_cast<ExprOp>(2 + random() % 26);
      const auto arg = [&] { return made[random() % made.size()]; };
      const auto a = arg(), b = arg(), c = arg();
      made.push_back(e.apply(op, a, b, c));
    }
    e.set_result(made.back());
    const Expression back = Expression::parse(e.to_string()).value();
    EXPECT_EQ(back.to_string(), e.to_string());
    const std::vector<double> in = {0.7, -1.3};
    const double one = e.evaluate(in), two = back.evaluate(in);
    EXPECT_TRUE(one == two || (std::isnan(one) && std::isnan(two)));
  }
}

TEST(Expression, RejectsBadTextWithThePlace) {
  const auto message = [](std::string_view text) {
    auto e = Expression::parse(text);
    return e.ok() ? std::string("accepted") : e.status().message();
  };
  EXPECT_EQ(message("mul(x0"), "expression: at offset 6: found the end, wanted ',' and a further operand");
  EXPECT_EQ(message("foo(x0)"), "expression: at offset 0: found 'foo(x0)', wanted a number, an input or an operation");
  EXPECT_EQ(message("x0 x1"), "expression: at offset 3: found 'x1', wanted the end");
  EXPECT_EQ(message("x99999"), "expression: at offset 0: found 'x99999', wanted an input x0 to x4095");
  EXPECT_EQ(message("neg x0"), "expression: at offset 4: found 'x0', wanted '('");
  EXPECT_NE(message("(t0 = x0; t0 = x1; t0)").find("is"), std::string::npos);
  EXPECT_NE(message("1e999").find("range"), std::string::npos);
  EXPECT_NE(message("").find("the end"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "neg(";
  EXPECT_NE(message(deep).find("nesting"), std::string::npos);
  std::string wide = "x0";
  for (int i = 0; i < 200; ++i) wide = "add(" + wide + ", " + std::to_string(i) + ".5)";
  EXPECT_EQ(message(wide), "accepted");
}

TEST(Expression, ExactDecimalCarriesItsKind) {
  EXPECT_EQ(exact_decimal(1), "1.0");
  EXPECT_EQ(exact_decimal(-0.0), "-0.0");
  EXPECT_EQ(exact_decimal(0.1), "0.1");
  EXPECT_EQ(exact_decimal(1e22), "1e+22");
  EXPECT_EQ(exact_decimal(-std::numeric_limits<double>::infinity()), "-inf");
}

}  // namespace
}  // namespace firstlight::ops
