// SPDX-License-Identifier: Apache-2.0
// The matrix kernels compiled for AVX-512. The build sets the instruction set for this file alone; what it includes
// behind <immintrin.h> is local to it.
#include "kernels/linear/form.h"

#include <immintrin.h>

#include "kernels/linear/packing.h"

// The vocabulary comes before what is written in it.
// clang-format off
#include "kernels/common/cpu/simd_avx512.h"
#include "kernels/linear/tile_codes.h"
#include "kernels/linear/tile_int8.h"
#include "kernels/linear/tile_panels.h"
#include "kernels/linear/row_kernels.h"
#include "kernels/linear/rows_avx512.h"
#include "kernels/linear/form_table.h"
// clang-format on

namespace firstlight::kernels {

const Form& form_avx512() {
  static const Form kForm = [] {
    Form form = make_form(vector_ops_avx512());
    form.quantise_four = quantise_four;
    form.store_panel_bf16 = store_panel_bf16_lanes;
    return form;
  }();
  return kForm;
}

}  // namespace firstlight::kernels
