// SPDX-License-Identifier: Apache-2.0
// Element-wise functions over float arrays, one table per instruction set. Formulas and accuracy: vector_math.h.
#pragma once

#include <cstdint>

#include "ops/expression.h"

namespace firstlight::kernels {

struct VectorOps {
  // out[i] = op(a[i], b[i], c[i]) for i < count; unused arguments may be null, out may be one of them. `count` is a
  // multiple of 16. kInput and kConstant are not operations.
  void (*apply)(ops::ExprOp op, const float* a, const float* b, const float* c, float* out, int64_t count);
};

const VectorOps& vector_ops_avx2();
const VectorOps& vector_ops_avx512();

}  // namespace firstlight::kernels
