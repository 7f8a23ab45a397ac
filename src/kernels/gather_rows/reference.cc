// SPDX-License-Identifier: Apache-2.0
// The reference gather_rows: decodes the rows it takes.
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& table = call.inputs[0];
  const tensor::View& ids = call.inputs[1];
  const tensor::View& out = call.outputs[0];
  const int64_t table_rows = table.dim(0);
  const int64_t lines = table_rows == 0 || table.rank == 1 ? 1 : table.num_rows() / table_rows;  // last axes per row
  const int64_t line_bytes = table.rank == 1 ? tensor::dtype_info(table.dtype).block_bytes : row_stride(table);
  const int64_t width = table.rank == 1 ? 1 : row_elements(table);
  const int64_t out_bytes = lines * width * tensor::dtype_info(out.dtype).block_bytes;
  for_rows(worker, ids.num_elements(), [&](int64_t n) {
    const int64_t row = ids.as<const int32_t>()[n];
    std::byte* to = out.as<std::byte>() + n * out_bytes;
    if (row < 0 || row >= table_rows) {
      std::memset(to, 0, static_cast<size_t>(out_bytes));
      return;
    }
    const std::byte* from = table.as<const std::byte>() + row * lines * line_bytes;
    if (out.dtype == table.dtype) {
      std::memcpy(to, from, static_cast<size_t>(out_bytes));
      return;
    }
    const std::span values(reinterpret_cast<float*>(to), static_cast<size_t>(lines * width));
    FL_CHECK(tensor::decode_to_f32(table.dtype, {from, static_cast<size_t>(lines * line_bytes)}, values).ok());
  });
}

}  // namespace

KernelBody gather_rows_reference() {
  KernelBody body;
  body.symbol = "gather_rows_any_any_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
