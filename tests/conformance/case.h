// SPDX-License-Identifier: Apache-2.0
// A conformance case: one call of one operator with its operands, state and batch, and how far a result may be from the
// reference. Cases are written once and run on every row of the catalog that accepts them.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "catalog/kernel_row.h"
#include "ops/infer.h"
#include "plan/batch.h"
#include "tensor/view.h"

namespace firstlight::conformance {

struct Tensor {
  tensor::Type type;  // shape static: symbols are already resolved
  std::vector<std::byte> data;

  std::vector<double> values() const;  // decoded
};

// A sequence of the batch. Rows below start_position are in the state before the call.
struct Sequence {
  int64_t start_position = 0;
  int64_t num_tokens = 0;
  int64_t planned_length = 0;
};

struct State {
  ops::StateDecl decl;
  int64_t page_rows = 16;
  std::vector<Sequence> sequences;
  // Contents by [component][sequence][row][head][element], as float32 values exact in the stored type; rows the batch
  // appends are in it too for `attend`.
  std::vector<std::vector<std::vector<float>>> rows;
};

// |found - wanted| <= absolute + relative * |wanted| + scaled * scale_of(element), the last where the case gives it.
struct Bound {
  double absolute = 0;
  double relative = 0;
};

struct Case {
  std::string name;
  ops::OpKind op;
  ops::Attributes attributes;
  std::vector<Tensor> operands;  // a state operand stands as an empty tensor of type state
  std::vector<State> state;      // none, one, or several of the same sequences
  Bound bound{1e-6, 2e-6};
};

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
