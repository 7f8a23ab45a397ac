// SPDX-License-Identifier: Apache-2.0
// Layout::kPackedRows: a weight matrix [rows, columns] as the CPU's matrix kernels read it. 16 rows make a tile; inside
// a tile the columns run outermost, so that a tile is one sequential stream, and the 16 rows are the lanes of a vector:
// no sum over lanes is ever needed. Rows beyond the matrix are zero. The form holds for every compute mode. A stack [E,
// rows, columns] is E packed matrices, packed_matrix_bytes apart.
//
//   f32        per column: 16 floats
//   f16        per column: 16 halves
//   bf16, f8*  per pair of columns: 16 pairs of bfloat16 (an f8 value is exact in bfloat16)
//   q*, mxfp4, int4g, int8g, fp8g, nvfp4
//              per block of 32 columns: the codes (unsigned), then the scales. A group of 4 columns is a vector of 16
//   rows
//              times 4 bytes. The low nibbles of 4 vectors hold groups 0..3, the high nibbles groups 4..7; the fifth
//              bits are one vector more (bit g of a byte: group g), the fifth and sixth bits two (bits 2j, 2j+1 of
//              vector p: group 4p+j); 8-bit codes are 8 vectors. Super-block formats put d (and dmin) in front of each
//              8 blocks (nvfp4: 2). int4g, int8g: 16 float32 scales, then 16 zeros of a byte; fp8g: 16 float32 scales.
// Every value decoded from it equals the value decoded from the file's format.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/type.h"

namespace firstlight::tensor {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kBlockColumns = 32;

// Bytes of the block formats inside a tile. One group is `group_blocks` blocks behind a header.
struct PackedBlockLayout {
  int64_t code_bytes = 0;    // nibbles, or whole bytes
  int64_t high_bytes = 0;    // fifth (and sixth) bits
  int64_t scale_bytes = 0;   // per block
  int64_t header_bytes = 0;  // per group
  int64_t group_blocks = 1;

  constexpr int64_t block_bytes() const { return code_bytes + high_bytes + scale_bytes; }
  constexpr int64_t group_bytes() const { return header_bytes + group_blocks * block_bytes(); }
};

constexpr PackedBlockLayout packed_block_layout(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return {.code_bytes = 512, .scale_bytes = 32};
    case DType::kQ4_0:
      return {.code_bytes = 256, .scale_bytes = 32};
    case DType::kQ4_1:
      return {.code_bytes = 256, .scale_bytes = 64};
    case DType::kQ5_0:
      return {.code_bytes = 256, .high_bytes = 64, .scale_bytes = 32};
    case DType::kQ5_1:
      return {.code_bytes = 256, .high_bytes = 64, .scale_bytes = 64};
    case DType::kMXFP4:
      return {.code_bytes = 256, .scale_bytes = 16};
    case DType::kQ4_K:
      return {.code_bytes = 256, .scale_bytes = 32, .header_bytes = 64, .group_blocks = 8};
    case DType::kQ5_K:
      return {.code_bytes = 256, .high_bytes = 64, .scale_bytes = 32, .header_bytes = 64, .group_blocks = 8};
    case DType::kInt4G:
      return {.code_bytes = 256, .scale_bytes = 80};
    case DType::kInt8G:
      return {.code_bytes = 512, .scale_bytes = 80};
    case DType::kFP8G:
      return {.code_bytes = 512, .scale_bytes = 64};
    case DType::kNVFP4:
      return {.code_bytes = 256, .scale_bytes = 32, .header_bytes = 64, .group_blocks = 2};
    case DType::kQ6_K:
      return {.code_bytes = 256, .high_bytes = 128, .scale_bytes = 32, .header_bytes = 32, .group_blocks = 8};
    default:
      return {};
  }
}

// Whether weights of this type can be packed: f32, f16, bf16, f8e4m3, f8e5m2, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k,
// q6_k, mxfp4, int4g, int8g, fp8g, nvfp4.
bool can_pack(DType type);

// Bytes of one packed tile (a multiple of 64), and of one packed matrix: ceil(rows / 16) tiles.
int64_t packed_tile_bytes(DType type, int64_t columns);
int64_t packed_matrix_bytes(DType type, int64_t rows, int64_t columns);
// Bytes of a packed tensor of constant shape [.., rows, columns].
int64_t packed_bytes(const Type& type);

}  // namespace firstlight::tensor
