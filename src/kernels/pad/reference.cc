// SPDX-License-Identifier: Apache-2.0
// pad: the border filled, the inside copied.
#include "kernels/bodies.h"
#include "kernels/common/axis_lines.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  int64_t axis = 0;
  int64_t before = 0;
  float value = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->axis = input.signature.attributes.get_int("axis");
  options->before = input.signature.attributes.get_int("before");
  options->value = static_cast<float>(input.signature.attributes.get_float("value"));
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const AxisLines from = axis_lines(x, options.axis);
  const AxisLines to = axis_lines(call.outputs[0], options.axis);
  for_rows(worker, from.outer, [&](int64_t o) {
    float* out = call.outputs[0].as<float>() + o * to.n * to.inner;
    std::fill(out, out + to.n * to.inner, options.value);
    if (from.n * from.inner == 0) return;
    decode_elements(x, o * from.n * from.inner, from.n * from.inner, out + options.before * to.inner);
  });
}

}  // namespace

KernelBody pad_reference() {
  KernelBody body;
  body.symbol = "pad_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
