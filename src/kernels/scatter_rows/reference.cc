// SPDX-License-Identifier: Apache-2.0
// scatter_rows: a copy, then row after row. Workers share the columns, so that equal indices keep their order.
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  bool adds = false;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->adds = input.signature.attributes.get_string("mode") == "add";
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const bool adds = static_cast<const Options&>(*call.prepared).adds;
  const tensor::View& x = call.inputs[0];
  const tensor::View& ids = call.inputs[1];
  float* y = call.outputs[0].as<float>();
  const int64_t num_rows = x.dim(0);
  const int64_t width = num_rows == 0 ? 0 : x.num_elements() / num_rows;
  const Worker::Range range = worker.share(width, 16);
  const auto bytes = static_cast<size_t>(range.end - range.begin) * sizeof(float);
  if (bytes == 0) return;
  for (int64_t r = 0; r < num_rows; ++r) {
    std::memcpy(y + r * width + range.begin, x.as<const float>() + r * width + range.begin, bytes);
  }
  for (int64_t n = 0; n < ids.num_elements(); ++n) {
    const int32_t id = ids.as<const int32_t>()[n];
    if (id < 0 || id >= num_rows) continue;
    const float* from = call.inputs[2].as<const float>() + n * width;
    float* to = y + id * width;
    for (int64_t i = range.begin; i < range.end; ++i) to[i] = adds ? to[i] + from[i] : from[i];
  }
}

}  // namespace

KernelBody scatter_rows_reference() {
  KernelBody body;
  body.symbol = "scatter_rows_f32_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
