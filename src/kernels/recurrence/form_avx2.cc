// SPDX-License-Identifier: Apache-2.0
// The recurrences' inner loops compiled for AVX2. The build sets the instruction set for this file alone; what it
// includes behind <immintrin.h> is local to it.
#include "kernels/recurrence/form.h"

#include <immintrin.h>

// The vocabulary comes before what is written in it.
// clang-format off
#include "kernels/common/cpu/simd_avx2.h"
#include "kernels/common/cpu/vector_math.h"
// clang-format on

namespace firstlight::kernels {
namespace {

FL_INLINE void store_four_sums(const Float* v, float* to) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

}  // namespace
}  // namespace firstlight::kernels

// clang-format off
#include "kernels/recurrence/matrix_tiles.h"
#include "kernels/recurrence/dplr_tiles.h"
#include "kernels/recurrence/channel_tiles.h"
// clang-format on

namespace firstlight::kernels {

const RecurrenceForm& recurrence_form_avx2() {
  static const RecurrenceForm kForm = make_form();
  return kForm;
}

}  // namespace firstlight::kernels
