// SPDX-License-Identifier: Apache-2.0
#include "ops/attributes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace firstlight::ops {
namespace {

Attributes every_kind() {
  Attributes a;
  a.set("b", true);
  a.set("i", int64_t{-7});
  a.set("f", 1e-5);
  a.set("one", 1.0);
  a.set("s", std::string("a \"quoted\" \\ \n text"));
  a.set("ints", std::vector<int64_t>{0, 2, 1});
  a.set("floats", std::vector<double>{1.0, 0.5, std::numeric_limits<double>::infinity()});
  a.set("expr", Expression::parse("mul(x0, x1)").value());
  a.set("exprs", std::vector<Expression>{Expression::parse("x0").value(), Expression::parse("2.0").value()});
  a.set("no_ints", std::vector<int64_t>{});
  a.set("no_floats", std::vector<double>{});
  a.set("no_exprs", std::vector<Expression>{});
  a.set("no_expr", Expression{});
  a.set("constant", Expression::parse("2.0").value());
  a.set("minus", -std::numeric_limits<double>::infinity());
  return a;
}

TEST(Attributes, TextIsAsDocumented) {
  Attributes a;
  EXPECT_EQ(attributes_to_string(a), "");
  a.set("eps", 1e-5);
  a.set("style", std::string("half"));
  a.set("perm", std::vector<int64_t>{0, 2, 1});
  a.set("expr", Expression::parse("mul(x0, x1)").value());
  EXPECT_EQ(attributes_to_string(a), "{eps = 1e-05, expr = mul(x0, x1), perm = [0, 2, 1], style = \"half\"}");
}

TEST(Attributes, EveryKindReadsBack) {
  const Attributes a = every_kind();
  auto back = parse_attributes(attributes_to_string(a));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, a) << attributes_to_string(*back);
  EXPECT_EQ(parse_attributes("").value(), Attributes{});
  EXPECT_EQ(parse_attributes("{}").value(), Attributes{});
}

TEST(Attributes, OneIsNotOnePointZero) {
  const Attributes a = parse_attributes("{a = 1, b = 1.0, c = (1.0), d = [1], e = [1.0], f = [(1.0)]}").value();
  EXPECT_EQ(a.get_int("a"), 1);
  EXPECT_EQ(a.get_float("b"), 1.0);
  EXPECT_EQ(a.get_expression("c").to_string(), "1.0");
  EXPECT_EQ(a.get_ints("d").size(), 1u);
  EXPECT_EQ(a.get_floats("e").size(), 1u);
  EXPECT_EQ(a.get_expressions("f").size(), 1u);
}

TEST(Attributes, PrefixLeavesTheRest) {
  std::string_view text = "{k = 2} : f32[T, 4]";
  EXPECT_EQ(parse_attributes_prefix(text).value().get_int("k"), 2);
  EXPECT_EQ(text, " : f32[T, 4]");
}

TEST(Attributes, NanReadsBack) {
  const Attributes a = parse_attributes("{x = nan}").value();
  EXPECT_TRUE(std::isnan(a.get_float("x")));
}

TEST(Attributes, RejectsBadTextWithThePlace) {
  const auto message = [](std::string_view text) {
    auto a = parse_attributes(text);
    return a.ok() ? std::string("accepted") : a.status().message();
  };
  EXPECT_EQ(message("{a = }").substr(0, 36), "attributes: at offset 5: found '}', ");
  EXPECT_NE(message("{a 1}").find("wanted '='"), std::string::npos);
  EXPECT_NE(message("{a = 1").find("',' or '}'"), std::string::npos);
  EXPECT_NE(message("{a = 1, a = 2}").find("only once"), std::string::npos);
  EXPECT_NE(message("{a = [1, 2.0]}").find("only ints"), std::string::npos);
  EXPECT_NE(message("{a = [1.0, 2]}").find("only floats"), std::string::npos);
  EXPECT_NE(message("{a = \"x}").find("closing"), std::string::npos);
  EXPECT_NE(message("{a = \"\\q\"}").find("one of"), std::string::npos);
  EXPECT_NE(message("{a = 99999999999999999999}").find("int64"), std::string::npos);
  EXPECT_NE(message("{a = 1} x").find("the end"), std::string::npos);
  EXPECT_NE(message("a = 1").find("the end"), std::string::npos);
}

TEST(Attributes, EraseAndFind) {
  Attributes a = every_kind();
  EXPECT_TRUE(a.has("i"));
  a.erase("i");
  a.erase("i");
  EXPECT_EQ(a.find("i"), nullptr);
}

}  // namespace
}  // namespace firstlight::ops
