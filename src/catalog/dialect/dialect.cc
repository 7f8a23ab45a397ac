// SPDX-License-Identifier: Apache-2.0
// The kernels written in the device dialect: one list for every device backend, since one source serves all
// (catalog/kernels.cc repeats it for each). An operator that is not here is missing on devices, and the compiler says
// so by name; weights that are made at load are made on the host, by the CPU's rows.
#include <algorithm>

#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

using ops::OpKind;
using tensor::DType;
using tensor::Layout;
using tensor::Type;

bool is_rows(const Type& type) { return type.dtype == DType::kF32 && type.layout == Layout::kRowMajor; }

// Types that matrix products and table lookups decode 16 columns at a time.
bool is_decodable(const Type& type) {
  if (type.layout != Layout::kRowMajor) return false;
  switch (type.dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kMXFP4:
    case DType::kInt4G:
    case DType::kInt8G:
    case DType::kFP8G:
    case DType::kNVFP4:
      return true;
    default:
      return false;
  }
}

bool is_readable_float(const Type& type) {
  return type.layout == Layout::kRowMajor &&
         (type.dtype == DType::kF32 || type.dtype == DType::kF16 || type.dtype == DType::kBF16 ||
          type.dtype == DType::kF8E4M3 || type.dtype == DType::kF8E5M2 || type.dtype == DType::kF8E8M0);
}

// Element by element, as a float.
bool is_readable(const Type& type) {
  if (is_readable_float(type)) return true;
  if (type.layout != Layout::kRowMajor) return false;
  switch (type.dtype) {
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
      return true;
    default:
      return false;
  }
}

bool all_readable_floats(const Signature& signature) {
  return std::all_of(signature.operands.begin(), signature.operands.end(), is_readable_float);
}

bool has_source(const ops::Expression& expr) {
  return std::none_of(expr.terms().begin(), expr.terms().end(), [](const ops::ExprTerm& term) {
    return term.op == ops::ExprOp::kXor || term.op == ops::ExprOp::kMod;
  });
}

bool accepts_map(const Signature& signature) {
  return std::all_of(signature.operands.begin(), signature.operands.end(), is_readable) &&
         has_source(signature.attributes.get_expression("expr"));
}

bool accepts_fused_rows(const Signature& signature) {
  const auto& stages = signature.attributes.get_expressions("stages");
  return std::all_of(signature.operands.begin(), signature.operands.end(), is_readable) &&
         std::all_of(stages.begin(), stages.end(), has_source);
}

bool accepts_gather_rows(const Signature& signature) {
  const Type& table = signature.operands[0];
  return tensor::dtype_info(table.dtype).is_integer ? table.layout == Layout::kRowMajor : is_decodable(table);
}

bool accepts_cast(const Signature& signature) {
  const DType to = signature.results[0].dtype;
  const bool wide = signature.operands[0].dtype == DType::kU32;
  const bool stored = to == DType::kF32 || to == DType::kF16 || to == DType::kBF16 || to == DType::kBool ||
                      (to == DType::kI32 && !wide);
  return is_readable(signature.operands[0]) && stored;
}

bool accepts_product(const Signature& signature) {
  const auto operands = signature.operands;
  return signature.mode == ComputeMode::kF32 && operands.size() >= 2 && is_rows(operands[0]) &&
         is_decodable(operands[1]) && std::all_of(operands.begin() + 2, operands.end(), is_readable_float);
}

bool accepts_fused(const Signature& signature) {
  const auto operands = signature.operands;
  if (signature.mode != ComputeMode::kF32 || operands.empty() || !is_rows(operands[0])) return false;
  const ops::FusedLinearOperands places = ops::fused_linear_operands(signature.attributes);
  for (size_t i = 1; i < operands.size(); ++i) {
    const int at = static_cast<int>(i) - places.first_weight;
    const bool weight = at >= 0 && at < places.num_weights;
    if (!(weight ? is_decodable(operands[i]) : is_readable_float(operands[i]))) return false;
  }
  const auto& epilogue = signature.attributes.get_expressions("epilogue");
  return std::all_of(epilogue.begin(), epilogue.end(), has_source);
}

// Activations are f32; weights among them may be any readable float.
bool accepts_recurrence(const Signature& signature) {
  return std::all_of(signature.operands.begin(), signature.operands.end(),
                     [](const Type& type) { return type.is_state() || is_readable_float(type); });
}

// Norm weights may be any readable float, what is turned and written is f32.
bool accepts_rope_append(const Signature& signature) {
  const auto operands = signature.operands;
  return std::all_of(operands.begin() + 2, operands.begin() + 5, is_rows) &&
         std::all_of(operands.begin() + 5, operands.end(), is_readable_float);
}

bool accepts_attend(const Signature& signature) {
  if (!accepts_f32_rows(signature) || !has_source(signature.attributes.get_expression("score"))) return false;
  if (signature.op == OpKind::kAttend) return has_source(signature.attributes.get_expression("mask"));
  const auto& masks = signature.attributes.get_expressions("masks");
  return std::all_of(masks.begin(), masks.end(), has_source);
}

constexpr KernelRow row(std::string_view symbol, OpKind op, bool (*accepts)(const Signature&)) {
  return {symbol, op, Backend::kSimt, {}, accepts, 1};
}

constexpr KernelRow kRows[] = {
    row("gather_rows_any_any_dialect", OpKind::kGatherRows, accepts_gather_rows),
    row("gather_last_any_any_dialect", OpKind::kGatherLast, accepts_row_major),
    row("constant_f32_dialect", OpKind::kConstant, accepts_row_major),
    row("take_any_any_dialect", OpKind::kTake, accepts_row_major),
    row("pad_any_f32_dialect", OpKind::kPad, all_readable_floats),
    row("scatter_rows_f32_f32_dialect", OpKind::kScatterRows, accepts_row_major),
    row("transpose_any_any_dialect", OpKind::kTranspose, accepts_row_major),
    row("slice_any_any_dialect", OpKind::kSlice, accepts_row_major),
    row("concat_any_any_dialect", OpKind::kConcat, accepts_row_major),
    row("stack_any_any_dialect", OpKind::kStack, accepts_row_major),
    row("cast_any_any_dialect", OpKind::kCast, accepts_cast),
    row("map_any_f32_dialect", OpKind::kMap, accepts_map),
    row("fused_rows_any_f32_dialect", OpKind::kFusedRows, accepts_fused_rows),
    row("imap_any_any_dialect", OpKind::kImap, accepts_row_major),
    row("fake_quant_f32_f32_dialect", OpKind::kFakeQuant, all_readable_floats),
    row("cumsum_any_f32_dialect", OpKind::kCumsum, all_readable_floats),
    row("reduce_any_f32_dialect", OpKind::kReduce, all_readable_floats),
    row("softmax_any_f32_dialect", OpKind::kSoftmax, all_readable_floats),
    row("top_k_f32_f32_dialect", OpKind::kTopK, accepts_f32_rows),
    row("index_mask_i32_f32_dialect", OpKind::kIndexMask, accepts_row_major),
    row("rms_norm_any_f32_dialect", OpKind::kRmsNorm, all_readable_floats),
    row("layer_norm_any_f32_dialect", OpKind::kLayerNorm, all_readable_floats),
    row("linear_f32any_f32_dialect", OpKind::kLinear, accepts_product),
    row("batched_linear_f32any_f32_dialect", OpKind::kBatchedLinear, accepts_product),
    row("fused_linear_f32any_f32_dialect", OpKind::kFusedLinear, accepts_fused),
    row("route_f32any_f32_dialect", OpKind::kRoute, accepts_product),
    row("einsum_any_f32_dialect", OpKind::kEinsum, all_readable_floats),
    row("conv2d_any_f32_dialect", OpKind::kConv2d, all_readable_floats),
    row("pool2d_any_f32_dialect", OpKind::kPool2d, all_readable_floats),
    row("interp2d_any_f32_dialect", OpKind::kInterp2d, all_readable_floats),
    row("rope_f32_f32_dialect", OpKind::kRope, accepts_f32_rows),
    row("rope_append_f32_any_dialect", OpKind::kRopeAppend, accepts_rope_append),
    row("append_f32_any_dialect", OpKind::kAppend, accepts_row_major),
    row("attend_f32_f32_dialect", OpKind::kAttend, accepts_attend),
    row("attend_segments_f32_f32_dialect", OpKind::kAttendSegments, accepts_attend),
    row("index_scores_f32_i32_dialect", OpKind::kIndexScores, accepts_f32_rows),
    row("window_emit_f32_f32_dialect", OpKind::kWindowEmit, accepts_f32_rows),
    row("conv1d_f32_f32_dialect", OpKind::kConv1d, accepts_recurrence),
    row("recur_gla_f32_f32_dialect", OpKind::kRecurGla, accepts_recurrence),
    row("recur_delta_f32_f32_dialect", OpKind::kRecurDelta, accepts_recurrence),
    row("recur_selective_f32_f32_dialect", OpKind::kRecurSelective, accepts_recurrence),
    row("recur_elementwise_f32_f32_dialect", OpKind::kRecurElementwise, accepts_recurrence),
    row("recur_dplr_f32_f32_dialect", OpKind::kRecurDplr, accepts_recurrence),
    row("shift_f32_f32_dialect", OpKind::kShift, accepts_recurrence),
    row("recent_tokens_i32_i32_dialect", OpKind::kRecentTokens, accepts_row_major),
};

}  // namespace

std::span<const KernelRow> dialect_rows() { return kRows; }

}  // namespace firstlight::catalog
