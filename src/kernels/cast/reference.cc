// SPDX-License-Identifier: Apache-2.0
// cast: decoding through float32; integers among themselves exactly.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

// An element of an integer type; u64 above the range of int64 saturates.
int64_t load_integer(const std::byte* at, DType type) {
  const auto read = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case DType::kBool:
    case DType::kU8:
      return read(uint8_t{});
    case DType::kI8:
      return read(int8_t{});
    case DType::kI16:
      return read(int16_t{});
    case DType::kU16:
      return read(uint16_t{});
    case DType::kI32:
      return read(int32_t{});
    case DType::kU32:
      return read(uint32_t{});
    case DType::kI64:
      return read(int64_t{});
    default:
      return static_cast<int64_t>(std::min<uint64_t>(read(uint64_t{}), std::numeric_limits<int64_t>::max()));
  }
}

template <typename T>
T saturated(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void store_integer(std::byte* at, DType type, int64_t value) {
  if (type == DType::kI64) return put(at, value);
  if (type == DType::kF64) return put(at, static_cast<double>(value));
  if (type == DType::kBool) return put(at, static_cast<uint8_t>(value != 0));
  constexpr int64_t kLow = std::numeric_limits<int32_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int32_t>::max();
  if (type == DType::kI32) return put(at, static_cast<int32_t>(std::min(std::max(value, kLow), kHigh)));
  const auto as_float = static_cast<float>(value);
  FL_CHECK(
      tensor::encode_from_f32(type, {&as_float, 1}, {at, static_cast<size_t>(tensor::dtype_info(type).block_bytes)})
          .ok());
}

void store_floats(std::byte* to, DType type, std::span<const float> values) {
  const auto size = static_cast<size_t>(tensor::dtype_info(type).block_bytes);
  if (tensor::dtype_info(type).is_float) {
    FL_CHECK(tensor::encode_from_f32(type, values, {to, values.size() * size}).ok());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* at = to + i * size;
    if (type == DType::kI32) put(at, saturated<int32_t>(values[i]));
    if (type == DType::kI64) put(at, saturated<int64_t>(values[i]));
    if (type == DType::kBool) put(at, static_cast<uint8_t>(values[i] != 0));
  }
}

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const tensor::View& out = call.outputs[0];
  const int64_t width = row_elements(x);
  const int64_t from_bytes = row_stride(x);
  const int64_t to_bytes = row_stride(out);
  const bool is_integer = tensor::dtype_info(x.dtype).is_integer;
  const int64_t size = tensor::dtype_info(x.dtype).block_bytes;
  const int64_t to_size = tensor::dtype_info(out.dtype).block_bytes;
  std::vector<float> row(is_integer ? 0 : static_cast<size_t>(width));
  for_rows(worker, x.num_rows(), [&](int64_t r) {
    const std::byte* from = x.as<const std::byte>() + r * from_bytes;
    std::byte* to = out.as<std::byte>() + r * to_bytes;
    if (x.dtype == out.dtype) {
      std::memcpy(to, from, static_cast<size_t>(to_bytes));
    } else if (is_integer) {
      for (int64_t i = 0; i < width; ++i)
        store_integer(to + i * to_size, out.dtype, load_integer(from + i * size, x.dtype));
    } else {
      decode_row(x, r, row.data());
      store_floats(to, out.dtype, row);
    }
  });
}

}  // namespace

KernelBody cast_reference() {
  KernelBody body;
  body.symbol = "cast_any_any_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
