// SPDX-License-Identifier: Apache-2.0
// The kernels of pack_mxfp4.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"pack_mxfp4_u8_mxfp4_ref", ops::OpKind::kPackMxfp4, Backend::kReference, {}, accepts_row_major},
    // Never on the hot path.
    {"pack_mxfp4_u8_mxfp4_ref", ops::OpKind::kPackMxfp4, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> pack_mxfp4_rows() { return kRows; }

}  // namespace firstlight::catalog
