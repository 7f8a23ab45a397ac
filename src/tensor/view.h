// SPDX-License-Identifier: Apache-2.0
// A tensor as a kernel sees it: a pointer and what lies there, sizes resolved. Owns nothing.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "tensor/type.h"

namespace firstlight::tensor {

inline constexpr int kMaxRank = 6;

struct View {
  void* data = nullptr;  // null: an optional operand that is absent
  DType dtype = DType::kF32;
  Layout layout = Layout::kRowMajor;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};

  bool present() const { return data != nullptr; }
  int64_t dim(int axis) const { return dims[static_cast<size_t>(axis < 0 ? rank + axis : axis)]; }
  int64_t num_elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[static_cast<size_t>(i)];
    return product;
  }
  // All axes but the last, as one.
  int64_t num_rows() const { return rank == 0 ? 1 : (dim(-1) == 0 ? 0 : num_elements() / dim(-1)); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A view of `data` with the type's dimensions resolved. The rank must be at most kMaxRank.
inline View make_view(void* data, const Type& type, const SymbolValues& values = {}) {
  FL_CHECK(type.shape.size() <= kMaxRank);
  View view{data, type.dtype, type.layout, static_cast<int>(type.shape.size()), {}};
  for (size_t i = 0; i < type.shape.size(); ++i) view.dims[i] = type.shape[i].at(values);
  return view;
}

}  // namespace firstlight::tensor
