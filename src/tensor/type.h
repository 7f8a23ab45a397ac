// SPDX-License-Identifier: Apache-2.0
// What a value is: a tensor of some element type and shape, in some layout, or a handle on a sequence's state.
#pragma once

#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace firstlight::tensor {

// How the elements lie in memory.
enum class Layout : uint8_t {
  kRowMajor,    // contiguous, last axis fastest; block formats in their file layout
  kPackedRows,  // a weight matrix repacked for the CPU's matrix kernels (tensor/packing.h)
};

struct Type {
  enum class Kind : uint8_t { kTensor, kState };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kF32;
  Layout layout = Layout::kRowMajor;
  Shape shape;

  static Type tensor(DType dtype, Shape shape) { return {Kind::kTensor, dtype, Layout::kRowMajor, std::move(shape)}; }
  static Type state() { return {Kind::kState, DType::kF32, Layout::kRowMajor, {}}; }

  bool is_state() const { return kind == Kind::kState; }
  std::string to_string() const;  // "f32[T, 576]", "q4_1[576, 576] packed", "state"
  friend bool operator==(const Type&, const Type&) = default;
};

// Bytes of a row-major tensor; the last axis must be whole blocks (checked).
int64_t size_bytes(const Type& type, const SymbolValues& values = {});

}  // namespace firstlight::tensor
