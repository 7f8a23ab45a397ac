// SPDX-License-Identifier: Apache-2.0
// Small operands of any plain type (norm weights, sinks) as floats: their own memory if that is what they are, else
// decoded into the worker's scratch, behind what the kernel itself keeps there.
#pragma once

#include "kernels/common/rows.h"

namespace firstlight::kernels {

// `space` has room for the operand's elements. Null for an absent operand.
inline const float* small_operand(const tensor::View& view, float* space) {
  if (!view.present()) return nullptr;
  if (view.dtype == tensor::DType::kF32) return view.as<const float>();
  if (view.num_elements() > 0) decode_elements(view, 0, view.num_elements(), space);
  return space;
}

inline float* scratch_floats(Worker& worker, int64_t count) {
  return reinterpret_cast<float*>(worker.scratch(static_cast<size_t>(count) * sizeof(float)));
}

}  // namespace firstlight::kernels
