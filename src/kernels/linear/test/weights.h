// SPDX-License-Identifier: Apache-2.0
// Random weights in every stored format, for the tests and the benchmark of the matrix kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/linear/bodies.h"
#include "kernels/linear/packing.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace firstlight::kernels {

inline constexpr tensor::DType kPackedTypes[] = {
    tensor::DType::kF32,   tensor::DType::kF16,  tensor::DType::kBF16,  tensor::DType::kF8E4M3, tensor::DType::kF8E5M2,
    tensor::DType::kQ8_0,  tensor::DType::kQ4_0, tensor::DType::kQ4_1,  tensor::DType::kQ5_0,   tensor::DType::kQ5_1,
    tensor::DType::kQ4_K,  tensor::DType::kQ5_K, tensor::DType::kQ6_K,  tensor::DType::kMXFP4,  tensor::DType::kInt4G,
    tensor::DType::kInt8G, tensor::DType::kFP8G, tensor::DType::kNVFP4,
};

// The bytes of `count` random elements of about unit size, in the stored format. Every code occurs; scales are finite.
inline std::vector<std::byte> random_weights(tensor::DType type, int64_t count, std::mt19937& rng) {
  using tensor::DType;
  const tensor::DTypeInfo& info = tensor::dtype_info(type);
  std::vector<std::byte> bytes(static_cast<size_t>(*tensor::row_bytes(type, count)));
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> unit(0.5f, 1.0f);
  if (type == DType::kF32 || type == DType::kF16 || type == DType::kBF16) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(rng);
    tensor::encode_from_f32(type, values, bytes).value();
    return bytes;
  }
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  const auto put_float = [&](int64_t at, float value) { std::memcpy(bytes.data() + at, &value, 4); };
  const auto put_half = [&](int64_t at, float value) {
    const uint16_t bits = tensor::f32_to_f16(value);
    std::memcpy(bytes.data() + at, &bits, 2);
  };
  for (int64_t at = 0; at < static_cast<int64_t>(bytes.size()); at += info.block_bytes) {
    std::byte& first = bytes[static_cast<size_t>(at)];
    switch (type) {
      case DType::kF8E4M3:
        first &= static_cast<std::byte>(0xb7);
        break;  // below 1: no NaN
      case DType::kF8E5M2:
        first &= static_cast<std::byte>(0xbf);
        break;
      case DType::kQ8_0:
        put_half(at, unit(rng) / 64);
        break;
      case DType::kQ4_0:
        put_half(at, unit(rng) / 4);
        break;
      case DType::kQ5_0:
        put_half(at, unit(rng) / 8);
        break;
      case DType::kQ4_1:
        put_half(at, unit(rng) / 4), put_half(at + 2, -2 * unit(rng));
        break;
      case DType::kQ5_1:
        put_half(at, unit(rng) / 8), put_half(at + 2, -2 * unit(rng));
        break;
      case DType::kQ4_K:
        put_half(at, unit(rng) / 128), put_half(at + 2, unit(rng) / 16);
        break;
      case DType::kQ5_K:
        put_half(at, unit(rng) / 256), put_half(at + 2, unit(rng) / 16);
        break;
      case DType::kQ6_K:
        put_half(at + 208, unit(rng) / 1024);
        break;
      case DType::kMXFP4:
        first = static_cast<std::byte>(124 + rng() % 4);
        break;
      case DType::kInt4G:
        put_float(at, unit(rng) / 4);
        bytes[static_cast<size_t>(at) + 4] = static_cast<std::byte>(rng() % 17);
        break;
      case DType::kInt8G:
        put_float(at, unit(rng) / 64);
        break;
      case DType::kFP8G:
        put_float(at, unit(rng) / 64);
        for (int64_t i = 4; i < info.block_bytes; ++i) {
          std::byte& code = bytes[static_cast<size_t>(at + i)];
          if ((code & std::byte{0x7f}) == std::byte{0x7f}) code = std::byte{0};  // no NaN
        }
        break;
      case DType::kNVFP4:
        put_float(at, unit(rng) / 8);
        for (int64_t i = 4; i < 8; ++i) bytes[static_cast<size_t>(at + i)] = static_cast<std::byte>(0x28 + rng() % 24);
        break;
      default:
        break;
    }
  }
  return bytes;
}

inline std::vector<float> decoded(tensor::DType type, const std::vector<std::byte>& bytes, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  tensor::decode_to_f32(type, bytes, values).value();
  return values;
}

inline tensor::View view_of(const void* data, tensor::DType type, std::initializer_list<int64_t> dims,
                            tensor::Layout layout = tensor::Layout::kRowMajor) {
  tensor::View view{const_cast<void*>(data), type, layout, static_cast<int>(dims.size()), {}};
  size_t axis = 0;
  for (int64_t dim : dims) view.dims[axis++] = dim;
  return view;
}

// A stack of matrices through the pack_weight kernel; memory aligned as the kernels like it.
struct AlignedBytes {
  std::vector<std::byte> storage;
  std::byte* data = nullptr;
  explicit AlignedBytes(int64_t bytes) : storage(static_cast<size_t>(bytes) + 64) {
    data = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  }
};
inline AlignedBytes packed(tensor::DType type, const std::vector<std::byte>& bytes, int64_t matrices, int64_t rows,
                           int64_t columns, ThreadPool& pool) {
  AlignedBytes out(matrices * packed_matrix_bytes(type, rows, columns));
  const tensor::View from = view_of(bytes.data(), type, {matrices, rows, columns});
  const tensor::View to = view_of(out.data, type, {matrices, rows, columns}, tensor::Layout::kPackedRows);
  const KernelCall call{.inputs = {&from, 1}, .outputs = {&to, 1}};
  pool.run([&](Worker& worker) { cpu_pack_weight_bodies()[0].run(call, worker); });
  return out;
}

}  // namespace firstlight::kernels
