// SPDX-License-Identifier: Apache-2.0
// The reference reduce: float64 sums, one rounding.
#include <cmath>
#include <limits>

#include "ops/infer.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  enum class Op { kSum, kMax, kMin, kMean } op = Op::kSum;
  int64_t axis = -1;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const std::string& op = input.signature.attributes.get_string("op");
  options->op = op == "sum"   ? Options::Op::kSum
                : op == "max" ? Options::Op::kMax
                : op == "min" ? Options::Op::kMin
                              : Options::Op::kMean;
  options->axis = input.signature.attributes.get_int("axis");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  float* out = call.outputs[0].as<float>();
  const int axis = ops::resolve_axis(options.axis, x.rank);
  const int64_t n = x.dim(axis);
  int64_t inner = 1;
  for (int i = axis + 1; i < x.rank; ++i) inner *= x.dim(i);
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= x.dim(i);
  std::vector<float> line(static_cast<size_t>(inner));
  std::vector<double> sums(static_cast<size_t>(inner));
  const bool is_max = options.op == Options::Op::kMax;
  const bool is_min = options.op == Options::Op::kMin;
  const double infinity = std::numeric_limits<double>::infinity();
  for_rows(worker, outer, [&](int64_t o) {
    std::fill(sums.begin(), sums.end(), is_max ? -infinity : is_min ? infinity : 0.0);
    for (int64_t j = 0; j < n; ++j) {
      decode_elements(x, (o * n + j) * inner, inner, line.data());
      for (size_t i = 0; i < sums.size(); ++i) {
        const auto value = static_cast<double>(line[i]);
        if (!is_max && !is_min) {
          sums[i] += value;
        } else if ((is_max ? value > sums[i] : value < sums[i]) || std::isnan(value)) {
          sums[i] = value;  // a NaN stays: it wins no comparison and loses none
        }
      }
    }
    const double divisor = options.op == Options::Op::kMean ? static_cast<double>(n) : 1;
    for (size_t i = 0; i < sums.size(); ++i)
      out[o * inner + static_cast<int64_t>(i)] = static_cast<float>(sums[i] / divisor);
  });
}

}  // namespace

KernelBody reduce_reference() {
  KernelBody body;
  body.symbol = "reduce_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
