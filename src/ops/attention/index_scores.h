// SPDX-License-Identifier: Apache-2.0
// Where the optional operands of index_scores stand. Read from a node's attributes alone, so that the type rule and the
// kernels agree on it.
#pragma once

#include <cstddef>

#include "ops/op.h"

namespace firstlight::ops {

struct IndexScoresOperands {
  int weights = -1;  // operand numbers; -1: absent
  int within = -1;
};

// Of a node with checked attributes and `num_operands` operands, q and the state among them.
IndexScoresOperands index_scores_operands(const Attributes& attributes, size_t num_operands);

}  // namespace firstlight::ops
