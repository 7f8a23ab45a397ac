// SPDX-License-Identifier: Apache-2.0
// map on the CPU: the formula term by term over chunks that stay in the first cache. Operands that lie as the formula
// wants them are read in place; others (broadcast, other types, ends that fill no vector) go through small copies.
#include <cstring>

#include "base/small_vector.h"
#include "kernels/bodies.h"
#include "kernels/common/broadcast.h"
#include "kernels/common/cpu/expression_program.h"
#include "kernels/common/cpu/small_operand.h"

namespace firstlight::kernels {
namespace {

constexpr int64_t kChunk = ExpressionProgram::kChunk;
constexpr int64_t kVector = 16;

struct Options final : Prepared {
  explicit Options(const ops::Expression& expr) : program(expr) {}
  ExpressionProgram program;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  return std::unique_ptr<Prepared>(std::make_unique<Options>(input.signature.attributes.get_expression("expr")));
}

// One worker's run: the scratch is the program's, then a chunk per operand, then one for the result.
class Run {
 public:
  Run(const KernelCall& call, const VectorOps& ops, Worker& worker)
      : call_(call), ops_(ops), program_(static_cast<const Options&>(*call.prepared).program) {
    const auto operands = static_cast<int64_t>(call.inputs.size());
    scratch_ = scratch_floats(worker, program_.scratch_floats() + (operands + 1) * kChunk);
    copies_ = scratch_ + program_.scratch_floats();
    inputs_.resize(call.inputs.size());
  }

  // Elements [first, first + count) of the result, count <= kChunk; operand i's start at offsets[i], `stride` 0 or 1.
  void chunk(int64_t first, int64_t count, std::span<const int64_t> offsets, std::span<const int64_t> strides) {
    const bool whole = count % kVector == 0;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = read(i, offsets[i], strides[i], count, whole);
    float* out = call_.outputs[0].as<float>() + first;
    const int64_t padded = (count + kVector - 1) / kVector * kVector;
    float* to = whole ? out : copies_ + static_cast<int64_t>(inputs_.size()) * kChunk;
    program_.run(ops_, inputs_, padded, scratch_, to);
    if (!whole) std::memcpy(out, to, static_cast<size_t>(count) * sizeof(float));
  }

 private:
  const float* read(size_t i, int64_t offset, int64_t stride, int64_t count, bool whole) const {
    const tensor::View& x = call_.inputs[i];
    const bool is_f32 = x.dtype == tensor::DType::kF32;
    if (is_f32 && stride == 1 && whole) return x.as<const float>() + offset;
    float* copy = copies_ + static_cast<int64_t>(i) * kChunk;
    const int64_t padded = (count + kVector - 1) / kVector * kVector;
    const int64_t taken = stride == 0 ? 1 : count;
    if (is_f32) {
      std::memcpy(copy, x.as<const float>() + offset, static_cast<size_t>(taken) * sizeof(float));
    } else {
      decode_elements(x, offset, taken, copy);
    }
    std::fill(copy + taken, copy + padded, stride == 0 ? copy[0] : 0.0f);
    return copy;
  }

  const KernelCall& call_;
  const VectorOps& ops_;
  const ExpressionProgram& program_;
  float* scratch_;
  float* copies_;
  SmallVector<const float*, 8> inputs_;
};

// Whether an operand lies exactly as the result does, or is one element.
bool is_flat(const tensor::View& x, const tensor::View& out) {
  return x.num_elements() == out.num_elements() || x.num_elements() == 1;
}

void run_flat(const KernelCall& call, Run& run, Worker& worker) {
  const int64_t total = call.outputs[0].num_elements();
  SmallVector<int64_t, 8> offsets(call.inputs.size());
  SmallVector<int64_t, 8> strides(call.inputs.size());
  for (size_t i = 0; i < strides.size(); ++i) strides[i] = call.inputs[i].num_elements() == total && total != 1 ? 1 : 0;
  const Worker::Range range = worker.share(total, kVector);
  for (int64_t first = range.begin; first < range.end; first += kChunk) {
    for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = first * strides[i];
    run.chunk(first, std::min(kChunk, range.end - first), offsets, strides);
  }
}

void run_rows(const KernelCall& call, Run& run, Worker& worker) {
  const tensor::View& out = call.outputs[0];
  const Broadcast broadcast(call.inputs, out);
  const int64_t width = row_elements(out);
  SmallVector<int64_t, 8> offsets(call.inputs.size());
  SmallVector<int64_t, 8> strides(call.inputs.size());
  for (size_t i = 0; i < strides.size(); ++i) strides[i] = broadcast.last_stride(i);
  for_rows(worker, out.num_rows(), [&](int64_t row) {
    for (int64_t first = 0; first < width; first += kChunk) {
      for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = broadcast.row_offset(i, row) + first * strides[i];
      run.chunk(row * width + first, std::min(kChunk, width - first), offsets, strides);
    }
  });
}

template <const VectorOps& (*kOps)()>
void run(const KernelCall& call, Worker& worker) {
  const tensor::View& out = call.outputs[0];
  if (out.num_elements() == 0) return;
  Run run(call, kOps(), worker);
  const bool flat = std::all_of(call.inputs.begin(), call.inputs.end(), [&](const auto& x) { return is_flat(x, out); });
  if (flat) {
    run_flat(call, run, worker);
  } else {
    run_rows(call, run, worker);
  }
}

}  // namespace

std::span<const KernelBody> map_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"map_any_f32_avx2", prepare, run<vector_ops_avx2>, nullptr},
                                           {"map_any_f32_avx512", prepare, run<vector_ops_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
