// SPDX-License-Identifier: Apache-2.0
// What the attributes of assemble_weight say about its operands; for its kernels and for who builds such a node.
#pragma once

#include "ops/op.h"

namespace firstlight::ops {

// Where the optional operands stand; -1: absent.
struct AssembledOperands {
  int zero = -1;
  int global = -1;
  int order = -1;
  int count = 2;
};
AssembledOperands assembled_operands(const Attributes& attributes);

struct AssembledShape {
  tensor::Shape leading;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t scale_rows = 0;
  int64_t scale_columns = 0;
};
// Of codes with constant sizes and checked attributes.
AssembledShape assembled_shape(const tensor::Type& codes, const Attributes& attributes);

// Whether the block format holds these codes and scales without loss.
bool can_assemble(std::span<const tensor::Type> operands, const Attributes& attributes, tensor::DType format);

}  // namespace firstlight::ops
