// SPDX-License-Identifier: Apache-2.0
// rms_norm on the CPU, rows shared out over the workers.
#include "kernels/bodies.h"
#include "kernels/common/cpu/row_ops.h"
#include "kernels/common/cpu/small_operand.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  double eps = 0;
  double offset = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->eps = input.signature.attributes.get_float("eps");
  options->offset = input.signature.attributes.get_float("offset");
  return std::unique_ptr<Prepared>(std::move(options));
}

template <const RowOps& (*kOps)()>
void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const int64_t n = row_elements(x);
  const Worker::Range range = worker.share(x.num_rows());
  if (range.begin == range.end) return;
  const float* weight = small_operand(operand(call.inputs, 1), scratch_floats(worker, n));
  for (int64_t row = range.begin; row < range.end; ++row) {
    kOps().rms_norm(x.as<const float>() + row * n, n, weight, options.eps, options.offset,
                    call.outputs[0].as<float>() + row * n);
  }
}

}  // namespace

std::span<const KernelBody> rms_norm_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"rms_norm_f32_f32_avx2", prepare, run<row_ops_avx2>, nullptr},
                                           {"rms_norm_f32_f32_avx512", prepare, run<row_ops_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
