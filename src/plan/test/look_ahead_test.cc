// SPDX-License-Identifier: Apache-2.0
#include "plan/look_ahead.h"

#include <gtest/gtest.h>

namespace firstlight::plan {
namespace {

Plan plan_of(ops::Attributes attributes) {
  for (const char* name : {"dynamic_base", "dynamic_max"}) {
    if (!attributes.has(name)) attributes.set(name, 0.0);
  }
  if (!attributes.has("switch_length")) attributes.set("switch_length", int64_t{0});
  KernelStep step;
  step.op = ops::OpKind::kRopeAppend;
  step.attributes = std::move(attributes);
  Plan plan;
  plan.body.steps.push_back({});
  plan.body.steps.back().body = std::move(step);
  return plan;
}

TEST(LengthClass, OneSetIsNoQuestion) { EXPECT_EQ(length_class(plan_of({}), 1 << 20), ""); }

TEST(LengthClass, TwoSetsPartAtTheirLength) {
  ops::Attributes attributes;
  attributes.set("switch_length", int64_t{100});
  const Plan plan = plan_of(attributes);
  EXPECT_EQ(length_class(plan, 1), length_class(plan, 100));
  EXPECT_NE(length_class(plan, 100), length_class(plan, 101));
  EXPECT_EQ(length_class(plan, 101), length_class(plan, 1 << 20));
}

TEST(LengthClass, ABaseThatGrowsIsAnotherForEachLength) {
  ops::Attributes attributes;
  attributes.set("dynamic_base", 1e4);
  attributes.set("dynamic_max", 64.0);
  const Plan plan = plan_of(attributes);
  EXPECT_EQ(length_class(plan, 1), length_class(plan, 64));
  EXPECT_NE(length_class(plan, 65), length_class(plan, 66));
  EXPECT_NE(length_class(plan, 65), length_class(plan, 64));
}

}  // namespace
}  // namespace firstlight::plan
