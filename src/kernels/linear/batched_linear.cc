// SPDX-License-Identifier: Apache-2.0
// batched_linear on the CPU: x[T, H, A] times w[H, B, A] transposed, head by head. The (head, tile) pairs are dealt out
// in contiguous ranges; each worker prepares the rows of its heads itself, so there is no barrier.
#include <algorithm>

#include "kernels/linear/bodies.h"
#include "kernels/linear/matmul.h"
#include "kernels/linear/packing.h"
#include "tensor/dtype.h"

namespace firstlight::kernels {
namespace {

struct PreparedBatched final : Prepared {
  ProductPath path = ProductPath::kF32;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto prepared = std::make_unique<PreparedBatched>();
  prepared->path = product_path(step_mode(input.signature), input.signature.operands[1].dtype);
  return std::unique_ptr<Prepared>(std::move(prepared));
}

template <const Form& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const tensor::View& w = call.inputs[1];
  const int64_t heads = w.dim(0);
  const int64_t rows = w.dim(1);
  const int64_t columns = w.dim(2);
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  const bool packed = w.layout == tensor::Layout::kPackedRows;
  const int64_t head_bytes =
      packed ? packed_matrix_bytes(w.dtype, rows, columns) : rows * *tensor::row_bytes(w.dtype, columns);
  const Worker::Range range = worker.share(heads * tiles);
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t head = at / tiles;
    const int64_t end = std::min(range.end, (head + 1) * tiles);
    const WeightMatrix weight{.dtype = w.dtype,
                              .layout = w.layout,
                              .path = static_cast<const PreparedBatched*>(call.prepared)->path,
                              .data = w.as<const std::byte>() + head * head_bytes,
                              .rows = rows,
                              .bias = nullptr};
    const OutputRows output{call.outputs[0].as<float>() + head * rows, heads * rows};
    const MatmulJob job{.x = x.as<const float>() + head * columns,
                        .tokens = x.dim(0),
                        .columns = columns,
                        .x_stride = heads * columns,
                        .norm = {},
                        .weights = {&weight, 1},
                        .epilogue = {},
                        .extras = {},
                        .outputs = {&output, 1}};
    run_matmul_alone(kForm(), job, at - head * tiles, end - head * tiles, worker);
    at = end;
  }
}

}  // namespace

std::span<const KernelBody> cpu_batched_linear_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"batched_linear_f32any_f32_rows16_avx2", prepare, run<form_avx2>, nullptr},
      {"batched_linear_f32any_f32_rows16_avx512", prepare, run<form_avx512>, nullptr},
  };
  return kBodies;
}

}  // namespace firstlight::kernels
