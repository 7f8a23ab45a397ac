// SPDX-License-Identifier: Apache-2.0
// What happens to rows of activations before the products: norm, rounding to int8, panels. In the words of simd_*.h;
// included by form_<isa>.cc alone.
#pragma once

namespace firstlight::kernels {
namespace {

void normalise_row(const float* x, int64_t columns, int64_t padded, const NormOptions& norm, float* out) {
  const int64_t whole = columns / kLanes * kLanes;
  float scale = 1;
  if (norm.rms) {
    double squares = sum_squares(x, whole);
    for (int64_t k = whole; k < columns; ++k) squares += static_cast<double>(x[k]) * static_cast<double>(x[k]);
    scale = static_cast<float>(1.0 / __builtin_sqrt(squares / static_cast<double>(columns) + norm.eps));
  }
  const auto offset = static_cast<float>(norm.offset);
  if (norm.rms && norm.weight != nullptr) {
    for (int64_t k = 0; k < whole; k += kLanes) {
      const Float weight = add_f(load_f(norm.weight + k), set_f(offset));
      store_f(out + k, mul_f(mul_f(load_f(x + k), set_f(scale)), weight));
    }
    for (int64_t k = whole; k < columns; ++k) out[k] = x[k] * scale * (norm.weight[k] + offset);
  } else {
    const float factor = norm.rms ? scale * (1 + offset) : 1;
    for (int64_t k = 0; k < whole; k += kLanes) store_f(out + k, mul_f(load_f(x + k), set_f(factor)));
    for (int64_t k = whole; k < columns; ++k) out[k] = x[k] * factor;
  }
  for (int64_t k = columns; k < padded; ++k) out[k] = 0;
}

// Blocks of 32: scale = max |x| / 127, q = round(x / scale). The maximum is taken over the bits, so that a NaN or an
// infinity wins and makes the scale, and with it every product of the block, not finite. A block below the least scale
// that has a finite inverse counts as zero.
void quantise_row(const float* row, int64_t padded, int64_t token, const Int8Rows& rows) {
  constexpr int kVectors = static_cast<int>(kBlockColumns) / kLanes;
  const Int magnitude = set_i(0x7fffffff);
  for (int64_t b = 0; b < padded / kBlockColumns; ++b) {
    const float* x = row + b * kBlockColumns;
    const int64_t at = b * rows.num_tokens + token;
    Float values[kVectors];
    Int largest = zero_i();
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      values[v] = load_f(x + v * kLanes);
      largest = max_i(largest, and_i(bits_f(values[v]), magnitude));
    }
    const int32_t bits = max_of(largest);
    float max;
    __builtin_memcpy(&max, &bits, 4);
    const bool vanishes = max < 1e-36f;
    const float scale = vanishes ? 0 : max / 127.0f;
    const float inverse = vanishes ? 0 : 127.0f / max;
    Int codes[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      // min returns its second operand for a NaN: a code in range whatever comes in.
      const Float scaled = max_f(min_f(mul_f(values[v], set_f(inverse)), set_f(127)), set_f(-127));
      codes[v] = int_of(scaled);
      store_low_bytes(rows.codes + at * kBlockColumns + v * kLanes, codes[v]);
    }
    Int low = codes[0];
    Int high = codes[kVectors / 2];
    if constexpr (kVectors == 4) {
      low = add_i(low, codes[1]);
      high = add_i(high, codes[3]);
    }
    const int32_t sum_low = sum_of(low);
    const int32_t sum_high = sum_of(high);
    rows.blocks[at] = {scale, scale * static_cast<float>(sum_low + sum_high), -sum_low - sum_high, -sum_high};
  }
}

void store_panel_f32(const float* rows, int64_t stride, int64_t tokens, int64_t padded, std::byte* panel) {
  const int width = panel_width(tokens);
  auto* out = reinterpret_cast<float*>(panel);
  if (width == 1) {
    __builtin_memcpy(out, rows, static_cast<size_t>(padded) * sizeof(float));
    return;
  }
  for (int64_t k = 0; k < padded; ++k) {
    for (int64_t t = 0; t < tokens; ++t) out[k * width + t] = rows[t * stride + k];
    for (int64_t t = tokens; t < width; ++t) out[k * width + t] = 0;
  }
}

FL_INLINE uint32_t bf16_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  if (value != value) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

void store_panel_bf16(const float* rows, int64_t stride, int64_t tokens, int64_t padded, std::byte* panel) {
  constexpr int64_t kStripe = kBlockColumns;
  const int width = panel_width(tokens);
  auto* out = reinterpret_cast<uint32_t*>(panel);
  uint32_t rounded[kPanelTokens][kStripe] = {};
  for (int64_t start = 0; start < padded; start += kStripe) {
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < kStripe; ++i) rounded[t][i] = bf16_bits(rows[t * stride + start + i]);
    }
    for (int64_t i = 0; i < kStripe; i += 2) {
      uint32_t* at = out + (start + i) / 2 * width;
      for (int64_t t = 0; t < width; ++t) at[t] = rounded[t][i] | rounded[t][i + 1] << 16;
    }
  }
}

}  // namespace
}  // namespace firstlight::kernels
