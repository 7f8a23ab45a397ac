// SPDX-License-Identifier: Apache-2.0
// pack_weight on the CPU: a weight [.., R, K] in its stored format to Layout::kPackedRows, matrix by matrix.
#include <algorithm>

#include "kernels/linear/bodies.h"
#include "kernels/linear/packing.h"
#include "tensor/dtype.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& w = call.inputs[0];
  const int64_t rows = w.dim(-2);
  const int64_t columns = w.dim(-1);
  if (w.num_elements() == 0) return;
  const int64_t matrices = w.num_elements() / (rows * columns);
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  const int64_t row_bytes = *tensor::row_bytes(w.dtype, columns);
  const int64_t tile_bytes = packed_tile_bytes(w.dtype, columns);
  const Worker::Range range = worker.share(matrices * tiles);
  for (int64_t at = range.begin; at < range.end; ++at) {
    const int64_t first = at % tiles * kTileRows;
    const int64_t count = std::min(kTileRows, rows - first);
    const std::byte* from = w.as<const std::byte>() + (at / tiles * rows + first) * row_bytes;
    const std::byte* sources[kTileRows];
    for (int64_t r = 0; r < count; ++r) sources[r] = from + r * row_bytes;
    pack_tile(w.dtype, {sources, static_cast<size_t>(count)}, columns,
              call.outputs[0].as<std::byte>() + at * tile_bytes);
  }
}

}  // namespace

std::span<const KernelBody> cpu_pack_weight_bodies() {
  static constexpr KernelBody kBodies[] = {{"pack_weight_any_any_rows16_cpu", nullptr, run, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
