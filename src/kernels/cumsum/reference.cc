// SPDX-License-Identifier: Apache-2.0
// cumsum: float64 sums along the axis.
#include "kernels/bodies.h"
#include "kernels/common/axis_lines.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  int64_t axis = -1;
  bool exclusive = false;
  bool reverse = false;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->axis = input.signature.attributes.get_int("axis");
  options->exclusive = input.signature.attributes.get_bool("exclusive");
  options->reverse = input.signature.attributes.get_bool("reverse");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const AxisLines lines = axis_lines(call.inputs[0], options.axis);
  std::vector<float> line(static_cast<size_t>(lines.inner));
  std::vector<double> sums(line.size());
  for_rows(worker, lines.outer, [&](int64_t o) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t step = 0; step < lines.n; ++step) {
      const int64_t j = options.reverse ? lines.n - 1 - step : step;
      const int64_t first = (o * lines.n + j) * lines.inner;
      decode_elements(call.inputs[0], first, lines.inner, line.data());
      float* out = call.outputs[0].as<float>() + first;
      for (size_t i = 0; i < sums.size(); ++i) {
        const double before = sums[i];
        sums[i] += static_cast<double>(line[i]);
        out[i] = static_cast<float>(options.exclusive ? before : sums[i]);
      }
    }
  });
}

}  // namespace

KernelBody cumsum_reference() {
  KernelBody body;
  body.symbol = "cumsum_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
