// SPDX-License-Identifier: Apache-2.0
// fake_quant on the CPU: the same results as the reference body, by arithmetic on bits that the compiler turns into
// vector code.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "kernels/fake_quant/options.h"

namespace firstlight::kernels {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;

// Ties to even, of magnitudes up to `largest`. Adding and taking off 1.5 * 2^(23 + unit) rounds to multiples of 2^unit:
// right below the least normal value, whose spacing is constant; above it the mantissa is rounded in the bits.
template <int kLeastExponent, int kMantissaBits>
float round_float(float value, float largest) {
  constexpr int kDropped = 23 - kMantissaBits;
  const float clamped = std::min(std::max(value, -largest), largest);
  const auto bits = std::bit_cast<uint32_t>(clamped);
  const uint32_t even = (bits >> kDropped) & 1;
  const uint32_t rounded = (bits + ((1u << (kDropped - 1)) - 1) + even) & ~((1u << kDropped) - 1);
  constexpr auto kMagic =
      std::bit_cast<float>(static_cast<uint32_t>(127 + 23 + kLeastExponent - kMantissaBits) << 23 | 0x400000u);
  constexpr auto kLeastNormal = std::bit_cast<float>(static_cast<uint32_t>(127 + kLeastExponent) << 23);
  const float small = (clamped + kMagic) - kMagic;
  return std::fabs(clamped) < kLeastNormal ? small : std::bit_cast<float>(rounded);
}

float round_whole(float value, float largest) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (std::min(std::max(value, -largest - 1), largest) + kMagic) - kMagic;
}

template <SmallFormat kFormat>
float round_value(float value) {
  if constexpr (kFormat == SmallFormat::kE4M3) return round_float<-6, 3>(value, 448);
  if constexpr (kFormat == SmallFormat::kE5M2) return round_float<-14, 2>(value, 57344);
  if constexpr (kFormat == SmallFormat::kE2M1) return round_float<0, 1>(value, 6);
  if constexpr (kFormat == SmallFormat::kInt8) return round_whole(value, 127);
  if constexpr (kFormat == SmallFormat::kInt4) return round_whole(value, 7);
}

template <SmallFormat kFormat>
void round_block(const float* from, int64_t count, float scale, float* to) {
  if (scale == 0) return std::fill(to, to + count, 0.0f);
  if (std::isnan(scale)) return std::fill(to, to + count, scale);
  for (int64_t i = 0; i < count; ++i) {
    const float value = from[i] / scale;
    const float rounded = scale * round_value<kFormat>(value);
    to[i] = value != value ? value : rounded;
  }
}

using RoundBlock = void (*)(const float*, int64_t, float, float*);
RoundBlock rounder(SmallFormat format) {
  switch (format) {
    case SmallFormat::kE4M3:
      return round_block<SmallFormat::kE4M3>;
    case SmallFormat::kE5M2:
      return round_block<SmallFormat::kE5M2>;
    case SmallFormat::kE2M1:
      return round_block<SmallFormat::kE2M1>;
    case SmallFormat::kInt8:
      return round_block<SmallFormat::kInt8>;
    case SmallFormat::kInt4:
      break;
  }
  return round_block<SmallFormat::kInt4>;
}

float round_up_to_power(float scale) {
  const auto bits = std::bit_cast<uint32_t>(scale);
  if (bits == 0 || bits >= kInfinity) return scale;
  if (bits <= 0x400000u) return std::bit_cast<float>(0x400000u);  // 2^-127
  const uint32_t up = (bits + 0x7fffffu) & kInfinity;
  return std::bit_cast<float>(std::min(up, 254u << 23));
}

float computed_scale(const float* x, int64_t count, const FakeQuantOptions& options, float given) {
  uint32_t largest = std::bit_cast<uint32_t>(options.least);
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & kMagnitude);
  if (largest >= kInfinity) return NAN;
  const float scale = std::bit_cast<float>(largest) / largest_of(options.format);
  if (options.scale_format == ScaleFormat::kF32) return scale;
  if (options.scale_format == ScaleFormat::kUe8m0) return round_up_to_power(scale);
  const float global = given == 0 ? 1.0f : given;
  return global * round_float<-6, 3>(scale / global, 448);
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const FakeQuantOptions&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const std::vector<float> stored = decode_vector(operand(call.inputs, 1));
  const float given = stored.empty() ? options.scale : stored[0];
  const bool fixed = given != 0 && options.scale_format != ScaleFormat::kE4M3;
  const RoundBlock round = rounder(options.format);
  const int64_t columns = x.dim(-1);
  const int64_t block = options.block == 0 ? std::max<int64_t>(columns, 1) : options.block;
  for_rows(worker, x.num_rows(), [&](int64_t row) {
    const float* from = x.as<const float>() + row * columns;
    float* to = call.outputs[0].as<float>() + row * columns;
    for (int64_t first = 0; first < columns; first += block) {
      const int64_t count = std::min(block, columns - first);
      round(from + first, count, fixed ? given : computed_scale(from + first, count, options, given), to + first);
    }
  });
}

}  // namespace

std::span<const KernelBody> fake_quant_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"fake_quant_f32_f32_cpu", prepare_fake_quant, run, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
