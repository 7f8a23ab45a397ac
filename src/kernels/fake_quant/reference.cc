// SPDX-License-Identifier: Apache-2.0
// fake_quant, plainly: each format is what its exponent range and number of mantissa bits say.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "kernels/fake_quant/options.h"

namespace firstlight::kernels {
namespace {

// A small float format: the exponent of its least normal value and its mantissa bits.
struct FloatKind {
  int least_exponent;
  int mantissa_bits;
};

// To the nearest multiple of the spacing at |value|, ties to even; exact in float64.
double round_to(double value, FloatKind kind, double largest) {
  if (std::isnan(value)) return value;
  if (std::fabs(value) >= largest) return std::copysign(largest, value);
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, kind.least_exponent) - kind.mantissa_bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

double round_whole(double value, double largest) {
  if (std::isnan(value)) return value;
  return std::nearbyint(std::min(std::max(value, -largest - 1), largest));
}

float round_value(float value, SmallFormat format) {
  const auto v = static_cast<double>(value);
  switch (format) {
    case SmallFormat::kE4M3:
      return static_cast<float>(round_to(v, {-6, 3}, 448));
    case SmallFormat::kE5M2:
      return static_cast<float>(round_to(v, {-14, 2}, 57344));
    case SmallFormat::kE2M1:
      return static_cast<float>(round_to(v, {0, 1}, 6));
    case SmallFormat::kInt8:
      return static_cast<float>(round_whole(v, 127));
    case SmallFormat::kInt4:
      break;
  }
  return static_cast<float>(round_whole(v, 7));
}

// The least power of two (2^-127 to 2^127) that is not below.
float round_up_to_power(float scale) {
  if (!std::isfinite(scale) || scale == 0) return scale;
  int exponent = 0;
  const float fraction = std::frexp(scale, &exponent);
  if (fraction == 0.5f) --exponent;
  return std::ldexp(1.0f, std::min(std::max(exponent, -127), 127));
}

float computed_scale(const float* x, int64_t count, const FakeQuantOptions& options, float given) {
  float largest = options.least;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(x[i]);
    if (std::isnan(magnitude) || std::isinf(magnitude)) return NAN;
    largest = std::max(largest, magnitude);
  }
  const float scale = largest / largest_of(options.format);
  switch (options.scale_format) {
    case ScaleFormat::kF32:
      return scale;
    case ScaleFormat::kUe8m0:
      return round_up_to_power(scale);
    case ScaleFormat::kE4M3:
      break;
  }
  const float global = given == 0 ? 1.0f : given;
  return global * round_value(scale / global, SmallFormat::kE4M3);
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const FakeQuantOptions&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const std::vector<float> stored = decode_vector(operand(call.inputs, 1));
  const float given = stored.empty() ? options.scale : stored[0];
  const bool fixed = given != 0 && options.scale_format != ScaleFormat::kE4M3;
  const int64_t columns = x.dim(-1);
  const int64_t block = options.block == 0 ? std::max<int64_t>(columns, 1) : options.block;
  for_rows(worker, x.num_rows(), [&](int64_t row) {
    const float* from = x.as<const float>() + row * columns;
    float* to = call.outputs[0].as<float>() + row * columns;
    for (int64_t first = 0; first < columns; first += block) {
      const int64_t count = std::min(block, columns - first);
      const float scale = fixed ? given : computed_scale(from + first, count, options, given);
      for (int64_t i = first; i < first + count; ++i) {
        to[i] = scale == 0 ? 0.0f : scale * round_value(from[i] / scale, options.format);
      }
    }
  });
}

}  // namespace

KernelBody fake_quant_reference() {
  KernelBody body;
  body.symbol = "fake_quant_f32_f32_ref";
  body.prepare = prepare_fake_quant;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
