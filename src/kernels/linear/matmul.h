// SPDX-License-Identifier: Apache-2.0
// The driver of the CPU's matrix products, the same for every instruction set and for linear, fused_linear and
// batched_linear: rows of activations are normalised and put into the form the weights' kernels read, then tiles of
// weights pass over them; results get bias and epilogue where they lie. Workers share the tiles in contiguous ranges,
// or the tokens where each then has enough of them: what a token needs then stays in one core's caches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "catalog/kernel_row.h"
#include "kernels/common/cpu/expression_program.h"
#include "kernels/linear/form.h"
#include "tensor/type.h"

namespace firstlight::kernels {

// How the products of one weight are computed.
enum class ProductPath : uint8_t { kInt8, kF32, kBf16 };

// By compute mode and stored type. In int8 mode only block formats of 4 to 8 bits take int8 activations; bf16, f8 and
// fp8g weights are computed as in bf16 mode, f32 and f16 weights as in f32 mode.
ProductPath product_path(catalog::ComputeMode mode, tensor::DType weight);

struct WeightMatrix {
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Layout layout = tensor::Layout::kRowMajor;  // row-major ones are packed tile by tile on the way: slower
  ProductPath path = ProductPath::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  const float* bias = nullptr;  // [rows]; may be null
};

// An operand of the epilogue beside the products.
struct ExtraOperand {
  const float* data = nullptr;
  int64_t token_stride = 0;  // floats between tokens; 0: the same row for all
};

struct OutputRows {
  float* data = nullptr;
  int64_t stride = 0;  // floats between tokens
};

struct MatmulJob {
  const float* x = nullptr;
  int64_t tokens = 0;
  int64_t columns = 0;
  int64_t x_stride = 0;  // floats between tokens
  NormOptions norm;
  std::span<const WeightMatrix> weights;
  // Without epilogue: output i is the product of weight i. With: all weights have as many rows, output i is epilogue i
  // of the products and extras.
  std::span<const ExpressionProgram> epilogue;
  std::span<const ExtraOperand> extras;
  std::span<const OutputRows> outputs;
};

// Called on all workers with the same job; may have a barrier inside. `workspace`: at least matmul_workspace_bytes.
void run_matmul(const Form& form, const MatmulJob& job, Worker& worker, std::span<std::byte> workspace);
int64_t matmul_workspace_bytes(std::span<const ProductPath> paths, int64_t tokens, int64_t columns);

// One job, the tiles [first_tile, last_tile) of its only weight, by the calling worker alone.
void run_matmul_alone(const Form& form, const MatmulJob& job, int64_t first_tile, int64_t last_tile, Worker& worker);

}  // namespace firstlight::kernels
