// SPDX-License-Identifier: Apache-2.0
// The kernels that exist, as data. A row says which operator a kernel computes, on what backend, which operand types it
// takes and what the hardware must have; bodies live in `kernels` under the same symbol. The compiler sees every row
// (it may compile for hardware that is absent); a build links the bodies of its own backends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/op.h"
#include "target/target.h"
#include "tensor/type.h"

namespace firstlight::catalog {

enum class Backend : uint8_t { kReference, kCpu, kSimt, kOpencl, kCuda, kMusa };

// Backends with memory and kernels of their own, whose kernels are written in the device dialect.
constexpr bool is_device(Backend backend) { return backend >= Backend::kSimt; }

std::string_view backend_name(Backend backend);  // "reference", "cpu", "simt", "opencl", "cuda", "musa"
std::optional<Backend> backend_from_name(std::string_view name);

// How matrix products compute (docs/numerics.md has the bound of each).
enum class ComputeMode : uint8_t {
  kF32,   // weights decoded to float32, float32 products and sums
  kBf16,  // both operands rounded to bfloat16, float32 sums
  kInt8,  // activations rounded to int8 per block of 32, integer dot products against 4- to 8-bit weights ("w4a8",
          // "w8a8")
};

std::string_view compute_mode_name(ComputeMode mode);  // "f32", "bf16", "w8a8"

// What a step asks for. `operands` are in the operator's order.
struct Signature {
  ops::OpKind op;
  std::span<const tensor::Type> operands;
  std::span<const tensor::Type> results;
  const ops::Attributes& attributes;
  ComputeMode mode = ComputeMode::kF32;
};

struct KernelRow {
  std::string_view symbol;  // op_intypes_outtype_tile_target
  ops::OpKind op;
  Backend backend;
  target::Features needs;                       // of the CPU, or of the device
  bool (*accepts)(const Signature& signature);  // types, layouts, attributes
  int rank = 0;                                 // among those that accept, the highest wins
};

// What a row is to its backend, for reports and for --no-tuned.
enum class Tier : uint8_t {
  kTuned,     // written for this backend
  kComposed,  // a plain body: the reference's, or a formula run term by term on vector primitives
};
Tier tier(const KernelRow& row);

// All rows, every backend.
std::span<const KernelRow> all_kernels();

// Which of the rows that accept: the one with the highest rank, or the lowest (the plain form behind a tuned one).
enum class KernelChoice : uint8_t { kBest, kPlainest };

// Whether the backend has any row for the operator: passes make no operator that it could not run.
bool has_kernel(Backend backend, ops::OpKind op);

// A row for the signature on a backend with these features; null when there is none.
const KernelRow* select_kernel(Backend backend, const target::Features& features, const Signature& signature,
                               KernelChoice choice = KernelChoice::kBest);

}  // namespace firstlight::catalog
