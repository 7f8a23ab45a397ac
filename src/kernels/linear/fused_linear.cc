// SPDX-License-Identifier: Apache-2.0
// fused_linear on the CPU: norm, several products of the same rows, bias, and formulas over the products, in one step.
#include <deque>
#include <vector>

#include "base/small_vector.h"
#include "kernels/linear/bodies.h"
#include "kernels/linear/matmul.h"
#include "ops/op.h"

namespace firstlight::kernels {
namespace {

struct PreparedFused final : Prepared {
  ops::FusedLinearOperands places;
  std::vector<ProductPath> paths;
  std::vector<ExpressionProgram> epilogue;
  NormOptions norm;  // without its weight
};

std::vector<ProductPath> paths_of(const catalog::Signature& signature, const ops::FusedLinearOperands& places) {
  std::vector<ProductPath> paths;
  for (int i = 0; i < places.num_weights; ++i) {
    const tensor::Type& weight = signature.operands[static_cast<size_t>(places.first_weight + i)];
    paths.push_back(product_path(step_mode(signature), weight.dtype));
  }
  return paths;
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  const ops::Attributes& attributes = input.signature.attributes;
  auto prepared = std::make_unique<PreparedFused>();
  prepared->places = ops::fused_linear_operands(attributes);
  prepared->paths = paths_of(input.signature, prepared->places);
  for (const ops::Expression& expression : attributes.get_expressions("epilogue")) {
    prepared->epilogue.emplace_back(expression);
  }
  prepared->norm.rms = attributes.get_string("norm") == "rms";
  if (prepared->norm.rms) {
    prepared->norm.eps = attributes.get_float("norm_eps");
    prepared->norm.offset = attributes.get_float("norm_offset");
  }
  return std::unique_ptr<Prepared>(std::move(prepared));
}

// Small operands that are not f32 are decoded here, per worker and run, into memory that a thread keeps; f32 ones cost
// nothing.
class SmallOperands {
 public:
  const float* get(const tensor::View& view) {
    if (view.dtype == tensor::DType::kF32) return view.as<const float>();
    thread_local std::deque<std::vector<float>> spaces;
    if (used_ == spaces.size()) spaces.emplace_back();
    std::vector<float>& space = spaces[used_++];
    const auto count = static_cast<size_t>(view.num_elements());
    if (space.size() < count) space.resize(count);
    return floats_of(view, space);
  }

 private:
  size_t used_ = 0;
};

template <const Form& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const auto& prepared = *static_cast<const PreparedFused*>(call.prepared);
  const ops::FusedLinearOperands& places = prepared.places;
  const auto input = [&](int index) -> const tensor::View& { return call.inputs[static_cast<size_t>(index)]; };
  const tensor::View& x = call.inputs[0];
  SmallOperands small;
  SmallVector<WeightMatrix, 8> weights;
  for (int i = 0; i < places.num_weights; ++i) {
    const tensor::View& w = input(places.first_weight + i);
    const int bias = places.biases[static_cast<size_t>(i)];
    weights.push_back({.dtype = w.dtype,
                       .layout = w.layout,
                       .path = prepared.paths[static_cast<size_t>(i)],
                       .data = w.as<const std::byte>(),
                       .rows = w.dim(0),
                       .bias = bias < 0 ? nullptr : small.get(input(bias))});
  }
  SmallVector<ExtraOperand, 8> extras;
  for (int i = 0; i < places.num_extras; ++i) {
    const tensor::View& extra = input(places.first_extra + i);
    const bool per_token = extra.rank > 1 || x.rank == 1;
    extras.push_back({small.get(extra), per_token ? extra.dim(-1) : 0});
  }
  SmallVector<OutputRows, 8> outputs;
  for (const tensor::View& output : call.outputs) outputs.push_back({output.as<float>(), output.dim(-1)});
  NormOptions norm = prepared.norm;
  if (places.norm_weight >= 0) norm.weight = small.get(input(places.norm_weight));
  const int64_t columns = x.dim(-1);
  const MatmulJob job{.x = x.as<const float>(),
                      .tokens = x.num_rows(),
                      .columns = columns,
                      .x_stride = columns,
                      .norm = norm,
                      .weights = weights,
                      .epilogue = prepared.epilogue,
                      .extras = extras,
                      .outputs = outputs};
  run_matmul(kForm(), job, worker, call.workspace);
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues& values, int) {
  const tensor::Type& x = signature.operands[0];
  const int64_t columns = x.shape.back().at(values);
  if (columns == 0) return 0;
  const auto paths = paths_of(signature, ops::fused_linear_operands(signature.attributes));
  return matmul_workspace_bytes(paths, tensor::num_elements(x.shape, values) / columns, columns);
}

}  // namespace

std::span<const KernelBody> cpu_fused_linear_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"fused_linear_f32any_f32_rows16_avx2", prepare, run<form_avx2>, workspace_bytes},
      {"fused_linear_f32any_f32_rows16_avx512", prepare, run<form_avx512>, workspace_bytes},
  };
  return kBodies;
}

}  // namespace firstlight::kernels
