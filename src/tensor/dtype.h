// SPDX-License-Identifier: Apache-2.0
// Element types and block-quantised formats: names, sizes, and nothing about storage. A block format packs
// `block_elements` consecutive elements of a row (the last axis) into `block_bytes` bytes; plain types have blocks of
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace firstlight::tensor {

enum class DType : uint8_t {
  kBool,  // one byte, 0 or 1
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,  // OCP E4M3: no infinities, 0x7f and 0xff are NaN, largest value 448
  kF8E5M2,  // OCP E5M2: IEEE-like, with infinities
  kF8E8M0,  // a power of two: 2^(code - 127), 0xff is NaN; scales only
  kF4E2M1,  // two per byte, low nibble first
  // Block formats of GGUF (ggml-common.h and gguf-py/gguf/quants.py of ggml-org/llama.cpp describe the layouts).
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMXFP4,  // 32 elements: one E8M0 scale, then 16 bytes of E2M1 (OCP MX v1.0); element j and j+16 share byte j
  // Our own block formats for the weights of vendors' checkpoints: the codes as stored, the scale beside them as
  // float32, so that a decoded value is the vendor's. `assemble_weight` makes them.
  kInt4G,  // 32 elements: d as float32, a zero z as u8, 16 bytes of nibbles as in Q4_0; value d * (q - z)
  kInt8G,  // 32 elements: d as float32, a zero z as u8, 32 x u8; value d * (q - z)
  kFP8G,   // 32 elements: d as float32, 32 x E4M3; value d * q
  kNVFP4,  // 64 elements: d as float32, a scale s in E4M3 per 16, per 32 elements 16 bytes of E2M1 as in MXFP4; value
           // (d * s) * q
  // Block formats for the rows of caches (tensor/state_rows.h makes them).
  kMXFP8,  // 32 elements: one E8M0 scale, then 32 x E4M3 (OCP MX v1.0)
  kQ4_1S,  // 32 elements: for either half of 16 d and m as halves, then 16 bytes of nibbles as in Q4_1; value d * q + m
};

struct DTypeInfo {
  std::string_view name;  // as the IR prints it: "f32", "bf16", "q4_1"
  int64_t block_elements;
  int64_t block_bytes;
  bool is_float;      // plain floating point
  bool is_integer;    // plain integer or bool
  bool is_quantised;  // a block format
};

const DTypeInfo& dtype_info(DType type);
inline std::string_view dtype_name(DType type) { return dtype_info(type).name; }
std::optional<DType> dtype_from_name(std::string_view name);

// Bytes of one row of `elements`; nullopt when `elements` is not a whole number of blocks or the product overflows.
std::optional<int64_t> row_bytes(DType type, int64_t elements);

}  // namespace firstlight::tensor
