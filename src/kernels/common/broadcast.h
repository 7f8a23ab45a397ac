// SPDX-License-Identifier: Apache-2.0
// Where the operands of a broadcast operator lie for each row of its result.
#pragma once

#include <array>
#include <span>

#include "base/small_vector.h"
#include "tensor/view.h"

namespace firstlight::kernels {

class Broadcast {
 public:
  Broadcast(std::span<const tensor::View> inputs, const tensor::View& out) : rank_(out.rank), dims_(out.dims) {
    for (const tensor::View& x : inputs) {
      Strides strides{};
      int64_t stride = 1;
      for (int i = x.rank - 1; i >= 0; --i) {
        const int64_t dim = x.dims[static_cast<size_t>(i)];
        strides[static_cast<size_t>(i + out.rank - x.rank)] = dim == 1 ? 0 : stride;
        stride *= dim;
      }
      strides_.push_back(strides);
    }
  }

  // Elements from one column to the next: 1, or 0 when the operand is the same along the last axis.
  int64_t last_stride(size_t operand) const {
    return rank_ == 0 ? 0 : strides_[operand][static_cast<size_t>(rank_ - 1)];
  }

  // First element of the operand for row `row` of the result.
  int64_t row_offset(size_t operand, int64_t row) const {
    int64_t offset = 0;
    for (int i = rank_ - 2; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      offset += row % dims_[at] * strides_[operand][at];
      row /= dims_[at];
    }
    return offset;
  }

 private:
  using Strides = std::array<int64_t, tensor::kMaxRank>;
  int rank_;
  Strides dims_;
  SmallVector<Strides, 8> strides_;
};

}  // namespace firstlight::kernels
