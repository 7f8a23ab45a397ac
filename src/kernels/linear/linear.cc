// SPDX-License-Identifier: Apache-2.0
// linear on the CPU: x[.., K] times w[R, K] transposed, plus bias.
#include <array>
#include <vector>

#include "kernels/linear/bodies.h"
#include "kernels/linear/matmul.h"

namespace firstlight::kernels {
namespace {

struct PreparedLinear final : Prepared {
  ProductPath path = ProductPath::kF32;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto prepared = std::make_unique<PreparedLinear>();
  prepared->path = product_path(step_mode(input.signature), input.signature.operands[1].dtype);
  return std::unique_ptr<Prepared>(std::move(prepared));
}

template <const Form& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const tensor::View& w = call.inputs[1];
  const bool biased = call.inputs.size() > 2;
  thread_local std::vector<float> bias_space;  // a thread keeps it
  const size_t decoded = biased && call.inputs[2].dtype != tensor::DType::kF32 ? static_cast<size_t>(w.dim(0)) : 0;
  if (bias_space.size() < decoded) bias_space.resize(decoded);
  const WeightMatrix weight{.dtype = w.dtype,
                            .layout = w.layout,
                            .path = static_cast<const PreparedLinear*>(call.prepared)->path,
                            .data = w.as<const std::byte>(),
                            .rows = w.dim(0),
                            .bias = biased ? floats_of(call.inputs[2], bias_space) : nullptr};
  const OutputRows output{call.outputs[0].as<float>(), w.dim(0)};
  const MatmulJob job{.x = x.as<const float>(),
                      .tokens = x.num_rows(),
                      .columns = w.dim(1),
                      .x_stride = w.dim(1),
                      .norm = {},
                      .weights = {&weight, 1},
                      .epilogue = {},
                      .extras = {},
                      .outputs = {&output, 1}};
  run_matmul(kForm(), job, worker, call.workspace);
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues& values, int) {
  const tensor::Type& x = signature.operands[0];
  const int64_t columns = x.shape.back().at(values);
  if (columns == 0) return 0;
  const std::array<ProductPath, 1> paths = {product_path(step_mode(signature), signature.operands[1].dtype)};
  return matmul_workspace_bytes(paths, tensor::num_elements(x.shape, values) / columns, columns);
}

}  // namespace

std::span<const KernelBody> cpu_linear_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"linear_f32any_f32_rows16_avx2", prepare, run<form_avx2>, workspace_bytes},
      {"linear_f32any_f32_rows16_avx512", prepare, run<form_avx512>, workspace_bytes},
  };
  return kBodies;
}

}  // namespace firstlight::kernels
