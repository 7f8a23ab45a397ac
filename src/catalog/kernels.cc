// SPDX-License-Identifier: Apache-2.0
// All tables as one list, and the choice of a row.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "catalog/kernel_row.h"
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

using Table = std::span<const KernelRow> (*)();
constexpr Table kTables[] = {
    gather_rows_rows,
    gather_last_rows,
    reshape_rows,
    transpose_rows,
    slice_rows,
    concat_rows,
    stack_rows,
    cast_rows,
    map_rows,
    reduce_rows,
    softmax_rows,
    top_k_rows,
    index_mask_rows,
    rms_norm_rows,
    layer_norm_rows,
    rope_rows,
    append_rows,
    attend_rows,
    dequantize_rows,
    pack_mxfp4_rows,
    fake_quant_rows,
    assemble_weight_rows,
    linear_reference_rows,
    linear_cpu_rows,
    take_rows,
    pad_rows,
    scatter_rows_rows,
    cumsum_rows,
    imap_rows,
    einsum_rows,
    conv2d_rows,
    pool2d_rows,
    interp2d_rows,
    recent_tokens_rows,
    shift_rows,
    conv1d_rows,
    recur_gla_rows,
    recur_delta_rows,
    recur_selective_rows,
    recur_elementwise_rows,
    recur_dplr_rows,
    index_scores_rows,
    window_emit_rows,
    constant_rows,
    fused_rows_rows,
    rope_append_rows,
};

std::vector<KernelRow> collect() {
  std::vector<KernelRow> rows;
  for (const Table table : kTables) {
    const auto part = table();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  for (const Backend backend : {Backend::kSimt, Backend::kOpencl, Backend::kCuda, Backend::kMusa}) {
    for (KernelRow row : dialect_rows()) {
      row.backend = backend;
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace

bool accepts_row_major(const Signature& signature) {
  return std::all_of(signature.operands.begin(), signature.operands.end(),
                     [](const tensor::Type& type) { return type.layout == tensor::Layout::kRowMajor; });
}

bool accepts_f32_rows(const Signature& signature) {
  return accepts_row_major(signature) && signature.operands[0].dtype == tensor::DType::kF32;
}

Tier tier(const KernelRow& row) {
  const bool plain = row.symbol.ends_with("_ref") || row.op == ops::OpKind::kMap || row.op == ops::OpKind::kFusedRows;
  return plain ? Tier::kComposed : Tier::kTuned;
}

std::string_view backend_name(Backend backend) {
  switch (backend) {
    case Backend::kReference:
      return "reference";
    case Backend::kCpu:
      return "cpu";
    case Backend::kSimt:
      return "simt";
    case Backend::kOpencl:
      return "opencl";
    case Backend::kCuda:
      return "cuda";
    case Backend::kMusa:
      return "musa";
  }
  FL_CHECK(false);
}

std::optional<Backend> backend_from_name(std::string_view name) {
  for (const Backend backend :
       {Backend::kReference, Backend::kCpu, Backend::kSimt, Backend::kOpencl, Backend::kCuda, Backend::kMusa}) {
    if (backend_name(backend) == name) return backend;
  }
  return std::nullopt;
}

std::string_view compute_mode_name(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kF32:
      return "f32";
    case ComputeMode::kBf16:
      return "bf16";
    case ComputeMode::kInt8:
      return "w8a8";
  }
  FL_CHECK(false);
}

std::span<const KernelRow> all_kernels() {
  static const std::vector<KernelRow> rows = collect();
  return rows;
}

bool has_kernel(Backend backend, ops::OpKind op) {
  const std::span<const KernelRow> rows = all_kernels();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const KernelRow& row) { return row.backend == backend && row.op == op; });
}

const KernelRow* select_kernel(Backend backend, const target::Features& features, const Signature& signature,
                               KernelChoice choice) {
  const KernelRow* best = nullptr;
  for (const KernelRow& row : all_kernels()) {
    if (row.op != signature.op || row.backend != backend || !features.has(row.needs)) continue;
    const bool wanted =
        best == nullptr || (choice == KernelChoice::kBest ? row.rank > best->rank : row.rank < best->rank);
    if (wanted && row.accepts(signature)) best = &row;
  }
  return best;
}

}  // namespace firstlight::catalog
