// SPDX-License-Identifier: Apache-2.0
// Fills a Form from the kernel text; included by form_<isa>.cc alone.
#pragma once

namespace firstlight::kernels {
namespace {

Int8Kernel int8_kernel(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return int8_tiles<DType::kQ8_0>;
    case DType::kQ4_0:
      return int8_tiles<DType::kQ4_0>;
    case DType::kQ4_1:
      return int8_tiles<DType::kQ4_1>;
    case DType::kQ5_0:
      return int8_tiles<DType::kQ5_0>;
    case DType::kQ5_1:
      return int8_tiles<DType::kQ5_1>;
    case DType::kQ4_K:
      return int8_tiles<DType::kQ4_K>;
    case DType::kQ5_K:
      return int8_tiles<DType::kQ5_K>;
    case DType::kQ6_K:
      return int8_tiles<DType::kQ6_K>;
    case DType::kMXFP4:
      return int8_tiles<DType::kMXFP4>;
    case DType::kInt4G:
      return int8_tiles<DType::kInt4G>;
    case DType::kInt8G:
      return int8_tiles<DType::kInt8G>;
    case DType::kNVFP4:
      return int8_tiles<DType::kNVFP4>;
    default:
      return nullptr;
  }
}

#define FL_PANEL_KERNELS(function)                \
  switch (type) {                                 \
    case DType::kF32:                             \
      return function<DType::kF32>;               \
    case DType::kF16:                             \
      return function<DType::kF16>;               \
    case DType::kBF16:                            \
    case DType::kF8E4M3: /* packed as bfloat16 */ \
    case DType::kF8E5M2:                          \
      return function<DType::kBF16>;              \
    case DType::kQ8_0:                            \
      return function<DType::kQ8_0>;              \
    case DType::kQ4_0:                            \
      return function<DType::kQ4_0>;              \
    case DType::kQ4_1:                            \
      return function<DType::kQ4_1>;              \
    case DType::kQ5_0:                            \
      return function<DType::kQ5_0>;              \
    case DType::kQ5_1:                            \
      return function<DType::kQ5_1>;              \
    case DType::kQ4_K:                            \
      return function<DType::kQ4_K>;              \
    case DType::kQ5_K:                            \
      return function<DType::kQ5_K>;              \
    case DType::kQ6_K:                            \
      return function<DType::kQ6_K>;              \
    case DType::kMXFP4:                           \
      return function<DType::kMXFP4>;             \
    case DType::kInt4G:                           \
      return function<DType::kInt4G>;             \
    case DType::kInt8G:                           \
      return function<DType::kInt8G>;             \
    case DType::kFP8G:                            \
      return function<DType::kFP8G>;              \
    case DType::kNVFP4:                           \
      return function<DType::kNVFP4>;             \
    default:                                      \
      return nullptr;                             \
  }

PanelKernel f32_kernel(DType type){FL_PANEL_KERNELS(f32_tiles)} PanelKernel
    bf16_kernel(DType type){FL_PANEL_KERNELS(bf16_tiles)}
#undef FL_PANEL_KERNELS

Form make_form(const VectorOps& vector_ops) {
  return {
      .panel_tokens = kPanelTokens,
      .single_tiles = kLanes == 16 ? 4 : 1,  // with 16 registers the codes of one half tile fill them all
      .batch_tiles = kLanes == 16 ? 2 : 1,
      .int8_kernel = int8_kernel,
      .f32_kernel = f32_kernel,
      .bf16_kernel = bf16_kernel,
      .panel_width = panel_width,
      .normalise_row = normalise_row,
      .quantise_row = quantise_row,
      .quantise_four = nullptr,
      .store_panel_f32 = store_panel_f32,
      .store_panel_bf16 = store_panel_bf16,
      .vector_ops = &vector_ops,
  };
}

}  // namespace
}  // namespace firstlight::kernels
