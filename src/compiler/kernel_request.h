// SPDX-License-Identifier: Apache-2.0
// What a node asks of the catalog, with everything the question refers to.
#pragma once

#include <vector>

#include "compiler/compile.h"
#include "ir/graph.h"

namespace firstlight::compiler {

struct KernelRequest {
  KernelRequest(const ir::Graph& graph, const ir::Node& node, const CompileOptions& options);

  std::vector<tensor::Type> operands, results;
  const ops::Attributes& attributes;
  ops::OpKind op;
  catalog::ComputeMode mode;
  tensor::DType stored = tensor::DType::kF32;  // of a product's weight; else of the first operand that is a tensor

  catalog::Signature signature() const {
    return {.op = op, .operands = operands, .results = results, .attributes = attributes, .mode = mode};
  }
  std::string types_text() const;  // "f32[T, 64], bf16[64]"
};

}  // namespace firstlight::compiler
