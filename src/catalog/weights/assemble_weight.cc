// SPDX-License-Identifier: Apache-2.0
// The kernels of assemble_weight.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"assemble_weight_any_any_ref", ops::OpKind::kAssembleWeight, Backend::kReference, {}, accepts_row_major},
    // At load only: codes are moved, nothing is computed.
    {"assemble_weight_any_any_ref", ops::OpKind::kAssembleWeight, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> assemble_weight_rows() { return kRows; }

}  // namespace firstlight::catalog
