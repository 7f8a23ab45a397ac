// SPDX-License-Identifier: Apache-2.0
// Writes Layout::kPackedRows: how the tiles lie stands in tensor/packing.h, here is what fills them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/packing.h"

namespace firstlight::kernels {

using tensor::can_pack;
using tensor::kBlockColumns;
using tensor::kTileRows;
using tensor::packed_block_layout;
using tensor::packed_matrix_bytes;
using tensor::packed_tile_bytes;
using tensor::PackedBlockLayout;

// Packs up to 16 rows (`rows`: their bytes in the stored format, in order) into the tile at `tile`.
void pack_tile(tensor::DType type, std::span<const std::byte* const> rows, int64_t columns, std::byte* tile);

}  // namespace firstlight::kernels
