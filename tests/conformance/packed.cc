// SPDX-License-Identifier: Apache-2.0
#include "packed.h"

#include <algorithm>

#include "formulas.h"
#include "kernels/linear/packing.h"

namespace firstlight::conformance {
namespace {

// A weight [.., R, K] packed for the CPU's matrix kernels.
Tensor pack(const Tensor& w) {
  const auto rank = w.type.shape.size();
  const int64_t rows = w.type.shape[rank - 2].factor;
  const int64_t columns = w.type.shape[rank - 1].factor;
  const int64_t matrices = tensor::num_elements(w.type.shape) / (rows * columns);
  const int64_t row_bytes = *tensor::row_bytes(w.type.dtype, columns);
  Tensor out = w;
  out.type.layout = tensor::Layout::kPackedRows;
  out.data.assign(static_cast<size_t>(matrices * kernels::packed_matrix_bytes(w.type.dtype, rows, columns)),
                  std::byte{0});
  std::byte* tile = out.data.data();
  for (int64_t m = 0; m < matrices; ++m) {
    for (int64_t first = 0; first < rows; first += kernels::kTileRows) {
      std::vector<const std::byte*> sources;
      for (int64_t r = first; r < std::min(rows, first + kernels::kTileRows); ++r) {
        sources.push_back(w.data.data() + (m * rows + r) * row_bytes);
      }
      kernels::pack_tile(w.type.dtype, sources, columns, tile);
      tile += kernels::packed_tile_bytes(w.type.dtype, columns);
    }
  }
  return out;
}

}  // namespace

std::optional<Case> packed(const Case& c) {
  if (!is_product(c.op)) return std::nullopt;
  size_t first = 1;
  size_t end = 2;
  if (c.op == ops::OpKind::kFusedLinear) {
    const ops::FusedLinearOperands places = ops::fused_linear_operands(c.attributes);
    first = static_cast<size_t>(places.first_weight);
    end = first + static_cast<size_t>(places.num_weights);
  }
  Case out = c;
  for (size_t i = first; i < end; ++i) {
    if (!kernels::can_pack(c.operands[i].type.dtype)) return std::nullopt;
    out.operands[i] = pack(c.operands[i]);
  }
  return out;
}

}  // namespace firstlight::conformance
