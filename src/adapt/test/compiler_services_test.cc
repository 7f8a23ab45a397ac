// SPDX-License-Identifier: Apache-2.0
#include "adapt/compiler_services.h"

#include <gtest/gtest.h>

#include "ops/infer.h"

namespace firstlight::adapt {
namespace {

TEST(ReferenceEvaluator, ComputesFormulasAndReductions) {
  const std::vector<double> values = {1, 2, 3, 4};
  const std::vector<compiler::ConstantEvaluator::Operand> operands = {{ops::f32({2, 2}), values}};
  ops::Attributes formula;
  formula.set("expr", ops::Expression::parse("add(mul(x0, x0), 0.5)").value());
  const auto squares = reference_evaluator().evaluate(ops::OpKind::kMap, formula, operands, ops::f32({2, 2}));
  ASSERT_TRUE(squares.ok()) << squares.status().message();
  EXPECT_EQ(*squares, (std::vector<double>{1.5, 4.5, 9.5, 16.5}));
  ops::Attributes sum;
  sum.set("op", std::string("sum"));
  ASSERT_TRUE(ops::check_attributes(ops::op_def(ops::OpKind::kReduce), sum).ok());
  const auto sums = reference_evaluator().evaluate(ops::OpKind::kReduce, sum, operands, ops::f32({2, 1}));
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(*sums, (std::vector<double>{3, 7}));
}

TEST(LinkedKernels, KnowWhatScratchKernelsNeed) {
  ops::Attributes attributes;
  ASSERT_TRUE(ops::check_attributes(ops::op_def(ops::OpKind::kLinear), attributes).ok());
  const std::vector<tensor::Type> operands = {ops::f32({tensor::Dim(1, tensor::Symbol::kTokens), 64}),
                                              ops::f32({32, 64})};
  const std::vector<tensor::Type> results = {ops::f32({tensor::Dim(1, tensor::Symbol::kTokens), 32})};
  const catalog::Signature signature{
      .op = ops::OpKind::kLinear, .operands = operands, .results = results, .attributes = attributes};
  const auto bytes = [&](int64_t tokens) {
    return linked_kernels().workspace_bytes("linear_f32any_f32_rows16_avx2", signature, {.tokens = tokens}, 2);
  };
  EXPECT_GT(bytes(64), 0);
  EXPECT_LE(bytes(1), bytes(64));
  EXPECT_EQ(linked_kernels().workspace_bytes("map_any_f32_avx2", signature, {.tokens = 9}, 2), 0);
  EXPECT_EQ(linked_kernels().workspace_bytes("nobody", signature, {.tokens = 9}, 2), 0);
}

}  // namespace
}  // namespace firstlight::adapt
