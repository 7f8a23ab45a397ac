// SPDX-License-Identifier: Apache-2.0
// The kernels of fake_quant.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"fake_quant_f32_f32_ref", ops::OpKind::kFakeQuant, Backend::kReference, {}, accepts_row_major},
    {"fake_quant_f32_f32_cpu", ops::OpKind::kFakeQuant, Backend::kCpu, {}, accepts_row_major, 1},
};

}  // namespace

std::span<const KernelRow> fake_quant_rows() { return kRows; }

}  // namespace firstlight::catalog
