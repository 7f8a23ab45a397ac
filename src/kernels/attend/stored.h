// SPDX-License-Identifier: Apache-2.0
// Elements of a state's rows as vectors, in the words of simd_*.h; included by tiles.h alone, behind form_<isa>.cc's
// own load_bf16, load_e4m3 and set_f16. Rows are read in steps of 16 elements, or of a block of 32 in two halves: one
// vector of AVX-512 each, two of AVX2. Every value is that of tensor::decode_row.
#pragma once

namespace firstlight::kernels {
namespace {

using tensor::DType;

constexpr int kVectorsPerHalf = 16 / kLanes;

// How far a step goes along a row.
template <DType kType>
struct Steps {
  static constexpr bool kBlocks =
      kType == DType::kQ8_0 || kType == DType::kMXFP8 || kType == DType::kQ4_1 || kType == DType::kQ4_1S;
  static constexpr int64_t kElements = kBlocks ? 32 : 16;
  static constexpr int64_t kBytes = kType == DType::kQ8_0    ? 34
                                    : kType == DType::kMXFP8 ? 33
                                    : kType == DType::kQ4_1  ? 20
                                    : kType == DType::kQ4_1S ? 24
                                    : kType == DType::kF32   ? 64
                                                             : 32;
};

// 2^8 times the values of E8M0: load_e4m3 gives 2^-8 of a value.
struct ByteScales {
  constexpr ByteScales() {
    for (uint32_t code = 0; code < 256; ++code) {
      values[code] = code <= tensor::kMXFP8Scales ? __builtin_bit_cast(float, (code + 8) << 23) : __builtin_nanf("");
    }
  }
  float values[256] = {};
};
constexpr ByteScales kByteScales;

// Vector `v` of half `half` of the step that begins at `at`.
template <DType kType>
FL_INLINE Float load_stored(const std::byte* at, int half, int v) {
  if constexpr (kType == DType::kF16) {
    return load_f16(at + 2 * v * kLanes);
  } else if constexpr (kType == DType::kBF16) {
    return load_bf16(at + 2 * v * kLanes);
  } else if constexpr (kType == DType::kF32) {
    return load_f(reinterpret_cast<const float*>(at) + v * kLanes);
  } else if constexpr (kType == DType::kQ8_0) {
    return mul_f(float_of(load_i8_as_i32(at + 2 + 16 * half + v * kLanes)), set_f16(at));
  } else if constexpr (kType == DType::kMXFP8) {
    const float scale = kByteScales.values[static_cast<uint8_t>(*at)];
    return mul_f(load_e4m3(at + 1 + 16 * half + v * kLanes), set_f(scale));
  } else {
    constexpr bool kFine = kType == DType::kQ4_1S;  // either half has scales of its own
    const Int bytes = load_u8_as_i32(at + (kFine ? 8 : 4) + v * kLanes);
    const Int codes = half == 0 ? and_i(bytes, set_i(15)) : shift_right(bytes, 4);
    const std::byte* scales = at + (kFine ? 4 * half : 0);
    return fma_f(float_of(codes), set_f16(scales), set_f16(scales + 2));
  }
}

// A row of `count` elements as floats.
template <DType kType>
void decode_of(const std::byte* from, int64_t count, float* out) {
  using Step = Steps<kType>;
  constexpr int kVectors = static_cast<int>(Step::kElements) / kLanes;
  int64_t i = 0;
  for (; i + Step::kElements <= count; i += Step::kElements, from += Step::kBytes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store_f(out + i + v * kLanes, load_stored<kType>(from, v / kVectorsPerHalf, v % kVectorsPerHalf));
    }
  }
  if (i == count) return;
  std::byte rest[Step::kBytes] = {};
  const int64_t left = Step::kBlocks ? Step::kBytes : (count - i) * (Step::kBytes / Step::kElements);
  for (int64_t b = 0; b < left; ++b) rest[b] = from[b];
  float values[Step::kElements];
  for (int v = 0; v < kVectors; ++v) {
    store_f(values + v * kLanes, load_stored<kType>(rest, v / kVectorsPerHalf, v % kVectorsPerHalf));
  }
  for (int64_t k = i; k < count; ++k) out[k] = values[k - i];
}

}  // namespace
}  // namespace firstlight::kernels
