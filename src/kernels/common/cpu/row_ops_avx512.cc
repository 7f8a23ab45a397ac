// SPDX-License-Identifier: Apache-2.0
// RowOps compiled for AVX-512. The build sets the instruction set for this file alone; what it includes behind
// <immintrin.h> is local to it.
#include "kernels/common/cpu/row_ops.h"

#include <immintrin.h>

// The vocabulary comes before what is written in it.
// clang-format off
#include "kernels/common/cpu/simd_avx512.h"
#include "kernels/common/cpu/vector_math.h"
#include "kernels/common/cpu/row_functions.h"
// clang-format on

namespace firstlight::kernels {

const RowOps& row_ops_avx512() {
  static constexpr RowOps kOps{.rms_norm = rms_norm, .layer_norm = layer_norm, .softmax = softmax};
  return kOps;
}

}  // namespace firstlight::kernels
