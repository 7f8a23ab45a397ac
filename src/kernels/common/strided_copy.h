// SPDX-License-Identifier: Apache-2.0
// Moves a box of equal units (elements, or blocks of a block format) between two strided places: the one body behind
// transpose, slice, concat and stack.
#pragma once

#include <array>
#include <cstddef>

#include "base/thread_pool.h"
#include "tensor/view.h"

namespace firstlight::kernels {

struct StridedCopy {
  int rank = 0;
  std::array<int64_t, tensor::kMaxRank + 1> dims{};          // in units
  std::array<int64_t, tensor::kMaxRank + 1> from_strides{};  // in bytes
  std::array<int64_t, tensor::kMaxRank + 1> to_strides{};
  int64_t unit_bytes = 1;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

// Axes of a view counted in units of its element type, with their strides in bytes, row-major.
struct UnitAxes {
  int rank = 0;
  std::array<int64_t, tensor::kMaxRank + 1> dims{};
  std::array<int64_t, tensor::kMaxRank + 1> strides{};
  int64_t unit_bytes = 1;
  int64_t unit_elements = 1;
};
UnitAxes unit_axes(const tensor::View& view);

// Runs this worker's share of the copy.
void run_strided_copy(StridedCopy copy, Worker& worker);

}  // namespace firstlight::kernels
