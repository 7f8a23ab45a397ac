// SPDX-License-Identifier: Apache-2.0
// Cases of the matrix products. Their bound is per element and per compute mode (bounds.cc).
#include "case.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

constexpr DType kWeights[] = {DType::kF32,   DType::kF16,  DType::kBF16, DType::kF8E4M3, DType::kF8E5M2,
                              DType::kQ8_0,  DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1,
                              DType::kQ4_K,  DType::kQ5_K, DType::kQ6_K, DType::kMXFP4,  DType::kInt4G,
                              DType::kInt8G, DType::kFP8G, DType::kNVFP4};

}  // namespace

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  Data data(31);
  const auto x = [&](tensor::Shape shape) { return data.floats(DType::kF32, std::move(shape)); };
  for (const DType dtype : kWeights) {
    const std::string name(tensor::dtype_name(dtype));
    for (const int64_t tokens : {1, 3, 17}) {
      cases.push_back({name + " T=" + std::to_string(tokens),
                       OpKind::kLinear,
                       {},
                       {x({tokens, 512}), data.floats(dtype, {37, 512}), x({37})},
                       {},
                       {}});
    }
    cases.push_back(
        {name + " heads", OpKind::kBatchedLinear, {}, {x({5, 3, 256}), data.floats(dtype, {3, 10, 256})}, {}, {}});
    cases.push_back(
        {name + " fused",
         OpKind::kFusedLinear,
         attributes("{num_weights = 2, bias = [0, 1], norm = \"rms\", norm_eps = 1e-05, norm_offset = 0.5, "
                    "norm_weighted = true, num_extras = 1, epilogue = [add(mul(mul(x0, sigmoid(x0)), x1), x2)]}"),
         {x({4, 256}), x({256}), data.floats(dtype, {35, 256}), data.floats(dtype, {35, 256}), x({35}), x({4, 35})},
         {},
         {}});
  }
  cases.push_back({"fused products",
                   OpKind::kFusedLinear,
                   attributes("{num_weights = 3, bias = [1, 0, 1]}"),
                   {x({3, 64}), x({10, 64}), data.floats(DType::kQ8_0, {20, 64}), x({7, 64}), x({10}), x({7})},
                   {},
                   {}});
  cases.push_back({"odd sizes", OpKind::kLinear, {}, {x({2, 3, 19}), data.floats(DType::kF32, {1, 19})}, {}, {}});
  cases.push_back({"odd bf16", OpKind::kLinear, {}, {x({5, 63}), data.floats(DType::kBF16, {70, 63})}, {}, {}});
  cases.push_back({"no tokens", OpKind::kLinear, {}, {x({0, 64}), x({8, 64})}, {}, {}});
  cases.push_back({"no tokens fused",
                   OpKind::kFusedLinear,
                   attributes("{num_weights = 1, bias = [0], norm = \"rms\", norm_eps = 1e-05}"),
                   {x({0, 64}), x({8, 64})},
                   {},
                   {}});
  return cases;
}

}  // namespace firstlight::conformance
