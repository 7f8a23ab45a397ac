// SPDX-License-Identifier: Apache-2.0
// The reference gather_last.
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const tensor::View& idx = call.inputs[1];
  const tensor::View& out = call.outputs[0];
  const int64_t n = row_elements(x);
  const int64_t k = row_elements(idx);
  const int64_t size = tensor::dtype_info(x.dtype).block_bytes;
  for_rows(worker, idx.num_rows(), [&](int64_t row) {
    for (int64_t j = 0; j < k; ++j) {
      const int64_t at = idx.as<const int32_t>()[row * k + j];
      std::byte* to = out.as<std::byte>() + (row * k + j) * size;
      if (at < 0 || at >= n) {
        std::memset(to, 0, static_cast<size_t>(size));
      } else {
        std::memcpy(to, x.as<const std::byte>() + (row * n + at) * size, static_cast<size_t>(size));
      }
    }
  });
}

}  // namespace

KernelBody gather_last_reference() {
  KernelBody body;
  body.symbol = "gather_last_any_any_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
