// SPDX-License-Identifier: Apache-2.0
// The CPU's matrix kernels: one row per operator and instruction set; every compute mode and every stored type that can
// be packed (tensor/packing.h), packed or row-major (slower: packed on the way).
#include <algorithm>

#include "catalog/tables.h"
#include "tensor/packing.h"

namespace firstlight::catalog {
namespace {

using ops::OpKind;
using tensor::DType;
using tensor::Layout;
using tensor::Type;

bool is_packable(const Type& type) { return tensor::can_pack(type.dtype); }

bool is_row_major(const Type& type) { return type.layout == Layout::kRowMajor; }

bool is_rows(const Type& type) { return type.dtype == DType::kF32 && is_row_major(type); }

// Biases, norm weights and other small vectors: decoded on the way if they are not f32.
bool is_small(const Type& type) { return tensor::dtype_info(type.dtype).is_float && is_row_major(type); }

bool accepts_product(const Signature& signature) {
  const auto operands = signature.operands;
  return operands.size() >= 2 && is_rows(operands[0]) && is_packable(operands[1]) &&
         std::all_of(operands.begin() + 2, operands.end(), is_small);
}

bool accepts_fused(const Signature& signature) {
  const ops::FusedLinearOperands places = ops::fused_linear_operands(signature.attributes);
  const auto operands = signature.operands;
  if (operands.empty() || !is_rows(operands[0])) return false;
  for (size_t i = 1; i < operands.size(); ++i) {
    const int at = static_cast<int>(i) - places.first_weight;
    const bool weight = at >= 0 && at < places.num_weights;
    if (!(weight ? is_packable(operands[i]) : is_small(operands[i]))) return false;
  }
  return true;
}

bool accepts_packing(const Signature& signature) {
  const Type& weight = signature.operands[0];
  return is_packable(weight) && is_row_major(weight) && weight.shape.size() >= 2 && tensor::is_static(weight.shape);
}

constexpr target::Features kAvx2Form{target::kAvx2};
constexpr target::Features kAvx512Form{target::kAvx2 | target::kAvx512 | target::kAvx512Vnni | target::kAvx512Bf16};

constexpr KernelRow kRows[] = {
    {"linear_f32any_f32_rows16_avx2", OpKind::kLinear, Backend::kCpu, kAvx2Form, accepts_product, 1},
    {"linear_f32any_f32_rows16_avx512", OpKind::kLinear, Backend::kCpu, kAvx512Form, accepts_product, 2},
    {"fused_linear_f32any_f32_rows16_avx2", OpKind::kFusedLinear, Backend::kCpu, kAvx2Form, accepts_fused, 1},
    {"fused_linear_f32any_f32_rows16_avx512", OpKind::kFusedLinear, Backend::kCpu, kAvx512Form, accepts_fused, 2},
    {"route_f32any_f32_rows16_avx2", OpKind::kRoute, Backend::kCpu, kAvx2Form, accepts_product, 1},
    {"route_f32any_f32_rows16_avx512", OpKind::kRoute, Backend::kCpu, kAvx512Form, accepts_product, 2},
    {"batched_linear_f32any_f32_rows16_avx2", OpKind::kBatchedLinear, Backend::kCpu, kAvx2Form, accepts_product, 1},
    {"batched_linear_f32any_f32_rows16_avx512", OpKind::kBatchedLinear, Backend::kCpu, kAvx512Form, accepts_product, 2},
    {"pack_weight_any_any_rows16_cpu", OpKind::kPackWeight, Backend::kCpu, kAvx2Form, accepts_packing, 1},
};

}  // namespace

std::span<const KernelRow> linear_cpu_rows() { return kRows; }

}  // namespace firstlight::catalog
