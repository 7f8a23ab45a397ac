// SPDX-License-Identifier: Apache-2.0
// Reading operands of any element type row by row (a row is the last axis), the plain way. What reference bodies and
// the slow paths of the others are built from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/codec.h"
#include "tensor/view.h"

namespace firstlight::kernels {

// Elements of a row; 1 for a scalar.
inline int64_t row_elements(const tensor::View& view) { return view.rank == 0 ? 1 : view.dim(-1); }

// Bytes from one row to the next.
inline int64_t row_stride(const tensor::View& view) {
  const auto bytes = tensor::row_bytes(view.dtype, row_elements(view));
  FL_CHECK(bytes.has_value());
  return *bytes;
}

inline const std::byte* row_at(const tensor::View& view, int64_t row) {
  return view.as<const std::byte>() + row * row_stride(view);
}

// Decodes row `row` to float32; `out` has room for it.
inline void decode_row(const tensor::View& view, int64_t row, float* out) {
  const auto count = static_cast<size_t>(row_elements(view));
  const std::span bytes(row_at(view, row), static_cast<size_t>(row_stride(view)));
  FL_CHECK(tensor::decode_to_f32(view.dtype, bytes, {out, count}).ok());
}

// `count` elements from element `first` of a plain (not block) type, decoded to float32.
inline void decode_elements(const tensor::View& view, int64_t first, int64_t count, float* out) {
  const int64_t size = tensor::dtype_info(view.dtype).block_bytes;
  const std::span bytes(view.as<const std::byte>() + first * size, static_cast<size_t>(count * size));
  FL_CHECK(tensor::decode_to_f32(view.dtype, bytes, {out, static_cast<size_t>(count)}).ok());
}

// A whole small operand (a norm's weight, a bias, sinks); empty when absent.
inline std::vector<float> decode_vector(const tensor::View& view) {
  std::vector<float> values;
  if (!view.present()) return values;
  values.resize(static_cast<size_t>(view.num_elements()));
  if (!values.empty()) decode_elements(view, 0, view.num_elements(), values.data());
  return values;
}

// An optional operand: an absent view when the call has fewer.
inline tensor::View operand(std::span<const tensor::View> inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : tensor::View{};
}

// This worker's rows of [0, total).
template <typename Body>
void for_rows(Worker& worker, int64_t total, Body&& body) {
  const Worker::Range range = worker.share(total);
  for (int64_t row = range.begin; row < range.end; ++row) body(row);
}

}  // namespace firstlight::kernels
