// SPDX-License-Identifier: Apache-2.0
// rope on the CPU: per token, sines and cosines of all pairs once, then every head rotated.
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/rope/options.h"
#include "kernels/rope/rotate.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const RopeOptions&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const int64_t heads = x.dim(1);
  const int64_t width = x.dim(2);
  const int64_t half = options.length / 2;
  const int64_t padded = (half + 3) / 4 * 4;
  const Worker::Range range = worker.share(x.dim(0));
  if (range.begin == range.end) return;
  float* cosine = scratch_floats(worker, 2 * padded);
  float* sine = cosine + padded;
  for_rope_rows(options, call.batch, range.begin, range.end, [&](int64_t t, const RopeTable& table) {
    const auto position = static_cast<double>(call.inputs[1].as<const int32_t>()[t]);
    fill_tables(table.freqs.data(), padded, position, table.scale, options.inverse, cosine, sine);
    const float* from = x.as<const float>() + t * heads * width;
    float* to = call.outputs[0].as<float>() + t * heads * width;
    if (to != from && options.length < width) std::memcpy(to, from, static_cast<size_t>(heads * width) * sizeof(float));
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = h * width + options.offset;
      (options.interleaved ? rotate_pairs : rotate_halves)(from + at, half, cosine, sine, to + at);
    }
  });
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) { return prepare_rope(input); }

}  // namespace

std::span<const KernelBody> rope_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"rope_f32_f32_avx2", prepare, run, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
