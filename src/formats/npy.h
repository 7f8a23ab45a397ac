// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files (format of numpy.lib.format, versions 1 to 3): C order, little endian, plain numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace firstlight::formats {

struct NpyArray {
  tensor::DType dtype = tensor::DType::kF32;  // bool, an integer type, f16, f32 or f64
  std::vector<int64_t> shape;                 // outermost first; empty for a scalar
  std::vector<std::byte> data;                // packed, row-major

  // Elements by value as T (float, double, int32_t, int64_t, …). Errors: kInvalidData when dtype is not T's own.
  template <typename T>
  Result<std::vector<T>> as() const;
};

// Errors: kInvalidData (malformed, size and shape disagree, trailing bytes), kUnsupported (Fortran order with more than
// one axis, big endian, structured, complex, string or object types; the description found is named).
Result<NpyArray> parse_npy(std::span<const std::byte> bytes);
Result<NpyArray> read_npy(const std::string& path);

// Writes through a temporary file and a rename. Errors: kInvalidArgument (shape and number of bytes disagree, a type
// NumPy has no name for, or the file can not be written).
Status write_npy(const std::string& path, tensor::DType dtype, std::span<const int64_t> shape,
                 std::span<const std::byte> data);
Status write_npy(const std::string& path, std::span<const int64_t> shape, std::span<const float> values);

}  // namespace firstlight::formats
