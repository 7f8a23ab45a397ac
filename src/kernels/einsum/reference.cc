// SPDX-License-Identifier: Apache-2.0
// einsum: for each place of all result axes but the last, products added along the last one; the inner loop runs over
// it and has constant strides.
#include "ops/linear/einsum.h"

#include "base/check.h"
#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  ops::EinsumEquation equation;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const auto equation = ops::parse_einsum(input.signature.attributes.get_string("equation"));
  if (!equation) return invalid_argument("einsum: its equation can not be read");
  options->equation = *equation;
  return std::unique_ptr<Prepared>(std::move(options));
}

struct Loop {
  int64_t size = 1;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
};

int64_t stride_of(const std::string& letters, const tensor::View& x, char letter) {
  const size_t at = letters.find(letter);
  if (at == std::string::npos) return 0;
  int64_t stride = 1;
  for (size_t i = at + 1; i < letters.size(); ++i) stride *= x.dim(static_cast<int>(i));
  return stride;
}

Loop loop_over(char letter, const ops::EinsumEquation& equation, const KernelCall& call) {
  const size_t in_a = equation.a.find(letter);
  const int64_t size = in_a != std::string::npos ? call.inputs[0].dim(static_cast<int>(in_a))
                                                 : call.inputs[1].dim(static_cast<int>(equation.b.find(letter)));
  return {size, stride_of(equation.a, call.inputs[0], letter), stride_of(equation.b, call.inputs[1], letter)};
}

// The offsets of both operands at place `index` of these loops, the last one fastest.
std::pair<int64_t, int64_t> offsets(std::span<const Loop> loops, int64_t index) {
  int64_t a = 0;
  int64_t b = 0;
  for (size_t i = loops.size(); i-- > 0;) {
    const int64_t place = index % loops[i].size;
    index /= loops[i].size;
    a += place * loops[i].a_stride;
    b += place * loops[i].b_stride;
  }
  return {a, b};
}

int64_t places(std::span<const Loop> loops) {
  int64_t product = 1;
  for (const Loop& loop : loops) product *= loop.size;
  return product;
}

// An operand as float32: where it lies, or decoded into `copy`.
const float* as_floats(const tensor::View& x, std::vector<float>& copy) {
  if (x.dtype == tensor::DType::kF32) return x.as<const float>();
  copy = decode_vector(x);
  return copy.data();
}

void run(const KernelCall& call, Worker& worker) {
  const ops::EinsumEquation& equation = static_cast<const Options&>(*call.prepared).equation;
  if (call.outputs[0].num_elements() == 0) return;
  std::vector<Loop> outer;
  for (const char letter : equation.out) outer.push_back(loop_over(letter, equation, call));
  const Loop last = outer.empty() ? Loop{} : outer.back();
  if (!outer.empty()) outer.pop_back();
  std::vector<Loop> summed;
  for (const char letter : equation.summed) summed.push_back(loop_over(letter, equation, call));
  std::vector<float> a_copy;
  std::vector<float> b_copy;
  const float* a = as_floats(call.inputs[0], a_copy);
  const float* b = as_floats(call.inputs[1], b_copy);
  const int64_t num_summed = places(summed);
  std::vector<double> sums(static_cast<size_t>(last.size));
  for_rows(worker, places(outer), [&](int64_t row) {
    const auto [a_row, b_row] = offsets(outer, row);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t k = 0; k < num_summed; ++k) {
      const auto [a_k, b_k] = offsets(summed, k);
      const float* pa = a + a_row + a_k;
      const float* pb = b + b_row + b_k;
      for (int64_t i = 0; i < last.size; ++i) {
        sums[static_cast<size_t>(i)] +=
            static_cast<double>(pa[i * last.a_stride]) * static_cast<double>(pb[i * last.b_stride]);
      }
    }
    float* out = call.outputs[0].as<float>() + row * last.size;
    for (size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(sums[i]);
  });
}

}  // namespace

KernelBody einsum_reference() {
  KernelBody body;
  body.symbol = "einsum_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
