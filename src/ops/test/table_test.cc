// SPDX-License-Identifier: Apache-2.0
// The table is complete, and its checks of nodes name what is wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/infer.h"
#include "ops/op.h"

namespace firstlight::ops {
namespace {

TEST(Table, EveryRowIsComplete) {
  std::set<std::string_view> names;
  for (const OpDef& def : all_ops()) {
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_EQ(&op_def(def.kind), &def);
    EXPECT_EQ(op_from_name(def.name), def.kind);
    EXPECT_NE(def.operands.empty(), def.kind != OpKind::kConstant) << def.name;
    EXPECT_FALSE(def.meaning.empty()) << def.name;
    EXPECT_FALSE(def.rounding.empty()) << def.name;
    EXPECT_FALSE(def.gradient.empty()) << def.name;
    EXPECT_NE(def.infer, nullptr) << def.name;
    EXPECT_NE(def.cost, nullptr) << def.name;
    EXPECT_TRUE(def.shard != nullptr || def.num_regions > 0) << def.name;
    for (const AttributeDef& a : def.attributes) {
      EXPECT_FALSE(a.meaning.empty()) << def.name << " " << a.name;
      EXPECT_TRUE(a.required || attribute_type(a.fallback) == a.type) << def.name << " " << a.name;
    }
    for (size_t i = 0; i + 1 < def.operands.size(); ++i) {
      if (def.operands[i].arity == OperandDef::Arity::kOne) continue;
      EXPECT_NE(def.operands[i + 1].arity, OperandDef::Arity::kOne) << def.name;
    }
  }
  EXPECT_FALSE(op_from_name("no_such_op").has_value());
}

TEST(Table, AttributesAreHeldAgainstTheRow) {
  const OpDef& def = op_def(OpKind::kRmsNorm);
  Attributes a;
  EXPECT_EQ(check_attributes(def, a).message(), "rms_norm: attribute eps is missing");
  a.set("eps", int64_t{1});
  EXPECT_EQ(check_attributes(def, a).message(), "rms_norm: attribute eps is 1 (int), wanted a value of type float");
  a.set("eps", 1e-6);
  EXPECT_TRUE(check_attributes(def, a).ok());
  EXPECT_EQ(a.get_float("offset"), 0.0);
  a.set("offset", 1e300);
  EXPECT_EQ(check_attributes(def, a).message(), "rms_norm: attribute offset holds 1e+300, wanted numbers of float32");
  a.set("offset", -HUGE_VAL);
  EXPECT_TRUE(check_attributes(def, a).ok());
  Attributes map;
  map.set("expr", Expression::parse("where(lt(x0, 1.0), x0, -1e39)").value());
  EXPECT_EQ(check_attributes(op_def(OpKind::kMap), map).message(),
            "map: attribute expr holds -1e+39, wanted numbers of float32");
  a.set("epsilon", 1.0);
  EXPECT_EQ(check_attributes(def, a).message(), "rms_norm: it has no attribute 'epsilon'");
}

TEST(Table, OperandsAreHeldAgainstTheRow) {
  const tensor::Type x = f32({4});
  const std::vector<tensor::Type> three(3, x);
  EXPECT_EQ(check_operands(op_def(OpKind::kRmsNorm), three).message(), "rms_norm: it has 3 operands, wanted 1 to 2");
  EXPECT_EQ(check_operands(op_def(OpKind::kGatherRows), three).message(), "gather_rows: it has 3 operands, wanted 2");
  EXPECT_EQ(check_operands(op_def(OpKind::kMap), {}).message(), "map: it has 0 operands, wanted 1 or more");
  EXPECT_TRUE(check_operands(op_def(OpKind::kMap), three).ok());
  const std::vector<tensor::Type> no_state = {x, x};
  EXPECT_EQ(check_operands(op_def(OpKind::kAttend), no_state).message(),
            "attend: operand state is f32[4], wanted a state");
}

TEST(Table, RegionParameters) {
  const tensor::Dim tokens(1, tensor::Symbol::kTokens);
  Attributes a;
  a.set("num_experts", int64_t{8});
  a.set("weight_on", std::string("output"));
  const std::vector<tensor::Type> operands = {f32({tokens, 16}), i32({tokens, 2}), f32({tokens, 2}), f32({8, 4, 16})};
  const auto parameters = region_parameters(OpKind::kPerExpert, 0, operands, a);
  ASSERT_TRUE(parameters.ok()) << parameters.status().message();
  EXPECT_EQ((*parameters)[0].to_string(), "f32[N, 16]");
  EXPECT_EQ((*parameters)[1].to_string(), "f32[4, 16]");
  EXPECT_FALSE(region_parameters(OpKind::kPerExpert, 1, operands, a).ok());
  EXPECT_FALSE(region_parameters(OpKind::kMap, 0, operands, a).ok());
}

}  // namespace
}  // namespace firstlight::ops
