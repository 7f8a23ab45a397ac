// SPDX-License-Identifier: Apache-2.0
// constant: its values, rounded to float32.
#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::vector<double> values;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->values = input.signature.attributes.get_floats("values");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& values = static_cast<const Options&>(*call.prepared).values;
  float* out = call.outputs[0].as<float>();
  for_rows(worker, static_cast<int64_t>(values.size()),
           [&](int64_t i) { out[i] = static_cast<float>(values[static_cast<size_t>(i)]); });
}

}  // namespace

KernelBody constant_reference() {
  KernelBody body;
  body.symbol = "constant_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
