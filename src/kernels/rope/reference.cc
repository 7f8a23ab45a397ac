// SPDX-License-Identifier: Apache-2.0
// The reference rope: angles, sines and cosines in float64.
#include <cmath>

#include "kernels/rope/options.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void rotate(const RopeOptions& options, const RopeTable& table, int64_t position, float* head) {
  const int64_t half = options.length / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * table.freqs[static_cast<size_t>(i)];
    const double c = std::cos(angle) * table.scale;
    const double s = std::sin(angle) * table.scale * (options.inverse ? -1.0 : 1.0);
    float& a = head[options.offset + (options.interleaved ? 2 * i : i)];
    float& b = head[options.offset + (options.interleaved ? 2 * i + 1 : i + half)];
    const auto x = static_cast<double>(a);
    const auto y = static_cast<double>(b);
    a = static_cast<float>(x * c - y * s);
    b = static_cast<float>(y * c + x * s);
  }
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const RopeOptions&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const int64_t heads = x.dim(1);
  const int64_t width = x.dim(2);
  const Worker::Range range = worker.share(x.dim(0));
  for_rope_rows(options, call.batch, range.begin, range.end, [&](int64_t t, const RopeTable& table) {
    const float* from = x.as<const float>() + t * heads * width;
    float* to = call.outputs[0].as<float>() + t * heads * width;
    if (to != from) std::copy_n(from, heads * width, to);
    for (int64_t h = 0; h < heads; ++h) rotate(options, table, call.inputs[1].as<const int32_t>()[t], to + h * width);
  });
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) { return prepare_rope(input); }

}  // namespace

KernelBody rope_reference() {
  KernelBody body;
  body.symbol = "rope_f32_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
