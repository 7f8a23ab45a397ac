// SPDX-License-Identifier: Apache-2.0
// The conformance cases: written once and run on every row of the catalog that accepts them.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "catalog/kernel_row.h"
#include "judge/case.h"
#include "ops/infer.h"
#include "plan/batch.h"
#include "tensor/view.h"

namespace firstlight::conformance {

using namespace judge;  // what a case is, how it runs, what its results may be

// Deterministic data. `seed` is the case's own.
class Data {
 public:
  explicit Data(uint32_t seed) : random_(seed) {}
  double normal() { return normal_(random_); }
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

  // Normal numbers times `scale`, stored in `dtype` (block formats: random codes with sane scales).
  Tensor floats(tensor::DType dtype, tensor::Shape shape, double scale = 1);
  Tensor ints(tensor::Shape shape, int32_t begin, int32_t end);
  static Tensor from(tensor::Shape shape, const std::vector<float>& values);
  static Tensor from_ints(tensor::Shape shape, const std::vector<int32_t>& values);
  static Tensor state();

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

ops::Attributes attributes(std::string_view text);

// `count` normal numbers, in rows of `width`, as a state that stores rows as `dtype` holds them.
std::vector<float> stored_rows(Data& data, tensor::DType dtype, int64_t width, int64_t count);

std::vector<Case> data_cases();
std::vector<Case> math_cases();
std::vector<Case> norm_cases();
std::vector<Case> linear_cases();
std::vector<Case> rope_cases();
std::vector<Case> state_cases();
std::vector<Case> attend_cases();
std::vector<Case> recurrence_cases();
std::vector<Case> log_cases();
Case rate_append_case(tensor::DType dtype);
std::vector<Case> weight_cases();
std::vector<Case> quant_cases();
std::vector<Case> fused_cases();
std::vector<Case> all_cases();

}  // namespace firstlight::conformance
