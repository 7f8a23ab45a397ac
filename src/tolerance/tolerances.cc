// SPDX-License-Identifier: Apache-2.0
#include "tolerance/tolerances.h"

#include <algorithm>
#include <cmath>

namespace firstlight::tolerance {

double product_rounding(catalog::ComputeMode mode) {
  switch (mode) {
    case catalog::ComputeMode::kInt8:
      return 6.8e-3;  // half a step of max/127 uniform, with a block's maximum at about 3 times its rms: 3/254/sqrt(3)
    case catalog::ComputeMode::kBf16:
      return 1.6e-3;  // 2^-9 uniform on both operands
    case catalog::ComputeMode::kF32:
      break;
  }
  return 3e-8;
}

double product_rounding(std::string_view mode) {
  for (const auto known : {catalog::ComputeMode::kInt8, catalog::ComputeMode::kBf16}) {
    if (mode == catalog::compute_mode_name(known)) return product_rounding(known);
  }
  return product_rounding(catalog::ComputeMode::kF32);
}

// Values as they are stored, and keys, whose error a score of size 2 carries into the softmax: the root of 1 + 2^2
// times the rounding.
double state_rounding(tensor::DType stored) {
  switch (stored) {
    case tensor::DType::kF16:
      return 3.1e-4;  // 2^-12, uniform
    case tensor::DType::kBF16:
      return 2.5e-3;
    // Blocks of normal numbers, a step of size d uniform: d = E max |x| / 127 of 32, (E max - E min) / 15 of 32 and 16.
    case tensor::DType::kQ8_0:
      return 1.1e-2;
    case tensor::DType::kMXFP8:
      return 5.7e-2;  // 2^-4, uniform
    case tensor::DType::kQ4_1:
      return 0.18;
    case tensor::DType::kQ4_1S:
      return 0.15;
    default:
      return 0;
  }
}

double explained(double step, double products) { return std::max(kFloor, kSpread * step * std::sqrt(products)); }

double explained_beside_noise(double step, double products, double noise) {
  return std::max({kNoiseFloor, kHonest * noise, kSpread * step * std::sqrt(products)});
}

double explained_by(double measured) { return std::max(kFloor, kHonest * measured); }

double apart_from_rounded(double measured) { return std::max(kFloor, kApart * measured); }

double row_explained_by(double measured) { return std::max(kFloor, kSpread * measured); }

}  // namespace firstlight::tolerance
