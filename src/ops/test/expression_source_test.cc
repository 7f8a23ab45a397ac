// SPDX-License-Identifier: Apache-2.0
#include "ops/expression_source.h"

#include <gtest/gtest.h>

#include <limits>

namespace firstlight::ops {
namespace {

TEST(ExpressionSource, OneStatementPerOperation) {
  const auto expression = Expression::parse("where(lt(x0, 0.0), mul(0.1, x0), exp(min(x1, inf)))").value();
  const std::string inputs[] = {"a[i]", "b"};
  const ExpressionSource source = expression_source(expression, inputs, "t", "  ");
  EXPECT_EQ(source.statements,
            "  const float t2 = a[i] < 0.0f ? 1.0f : 0.0f;\n"
            "  const float t4 = 0.1f * a[i];\n"
            "  const float t7 = fl_min(b, FL_INFINITY);\n"
            "  const float t8 = fl_exp(t7);\n"
            "  const float t9 = t2 != 0.0f ? t4 : t8;\n");
  EXPECT_EQ(source.value, "t9");
}

TEST(ExpressionSource, AnInputAlone) {
  const std::string inputs[] = {"x"};
  const ExpressionSource source = expression_source(Expression::parse("x0").value(), inputs, "t", "");
  EXPECT_EQ(source.statements, "");
  EXPECT_EQ(source.value, "x");
}

TEST(ExpressionSource, Literals) {
  EXPECT_EQ(float_literal(2), "2.0f");
  EXPECT_EQ(float_literal(0.1), "0.1f");
  EXPECT_EQ(float_literal(-1e30), "-1e+30f");
  EXPECT_EQ(float_literal(1e300), "FL_INFINITY");
  EXPECT_EQ(float_literal(-std::numeric_limits<double>::infinity()), "-FL_INFINITY");
  EXPECT_EQ(float_literal(std::numeric_limits<double>::quiet_NaN()), "FL_NAN");
}

}  // namespace
}  // namespace firstlight::ops
