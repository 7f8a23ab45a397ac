// SPDX-License-Identifier: Apache-2.0
// fused_rows on the CPU: rows shared out over the workers; per row the stages in turn, each formula evaluated in
// chunks, what a later stage reads kept in the worker's scratch.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/small_vector.h"
#include "kernels/bodies.h"
#include "kernels/common/broadcast.h"
#include "kernels/common/cpu/expression_program.h"
#include "kernels/common/cpu/small_operand.h"

namespace firstlight::kernels {
namespace {

using Reduce = ops::RowStage::Reduce;
constexpr int64_t kChunk = ExpressionProgram::kChunk;
constexpr int64_t kVector = 16;

int64_t padded(int64_t count) { return (count + kVector - 1) / kVector * kVector; }

struct Stage {
  ExpressionProgram program;
  Reduce reduce;
  std::vector<bool> reads;  // per operand and stage before
};

struct Options final : Prepared {
  std::vector<Stage> stages;
  std::vector<int64_t> results;
  int64_t program_floats = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const size_t operands = input.signature.operands.size();
  for (const ops::RowStage& stage : ops::row_stages(input.signature.attributes)) {
    Stage made{ExpressionProgram(stage.formula), stage.reduce, std::vector<bool>(operands + options->stages.size())};
    for (const ops::ExprTerm& term : stage.formula.terms()) {
      if (term.op == ops::ExprOp::kInput) made.reads[static_cast<size_t>(term.input)] = true;
    }
    options->program_floats = std::max(options->program_floats, made.program.scratch_floats());
    options->stages.push_back(std::move(made));
  }
  options->results = input.signature.attributes.get_ints("results");
  return std::unique_ptr<Prepared>(std::move(options));
}

// Sum of `count` floats: sixteen running sums, then one.
double sum_of_chunk(const float* x, int64_t count) {
  float sums[kVector] = {};
  int64_t i = 0;
  for (; i + kVector <= count; i += kVector) {
    for (int64_t lane = 0; lane < kVector; ++lane) sums[lane] += x[i + lane];
  }
  double sum = 0;
  for (const float lane : sums) sum += static_cast<double>(lane);
  for (; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

float max_of_chunk(const float* x, int64_t count, float top) {
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] > top || std::isnan(x[i])) top = x[i];  // a NaN stays: nothing is greater than it
  }
  return top;
}

// One worker's run. Scratch: the program's, a row per operand that can not be read where it lies, a row per stage.
class Run {
 public:
  Run(const KernelCall& call, const Options& options, const VectorOps& ops, Worker& worker)
      : call_(call), options_(options), ops_(ops), shape_(shape_of(call)), broadcast_(call.inputs, shape_) {
    width_ = row_elements(shape_);
    line_ = padded(width_);
    const auto lines = static_cast<int64_t>(call.inputs.size() + options.stages.size());
    scratch_ = scratch_floats(worker, options.program_floats + lines * line_);
    rows_.resize(static_cast<size_t>(lines), nullptr);
    chunk_.resize(rows_.size());
  }

  int64_t num_rows() const { return shape_.num_rows(); }

  void row(int64_t r) {
    for (size_t i = 0; i < call_.inputs.size(); ++i) rows_[i] = read(i, r);
    for (size_t s = 0; s < options_.stages.size(); ++s) run_stage(s, r);
    for (size_t i = 0; i < options_.results.size(); ++i) write(i, r);
  }

 private:
  static tensor::View shape_of(const KernelCall& call) {
    tensor::View shape;
    for (const tensor::View& x : call.inputs) shape.rank = std::max(shape.rank, x.rank);
    shape.dims.fill(1);
    for (const tensor::View& x : call.inputs) {
      for (int i = 0; i < x.rank; ++i) {
        int64_t& dim = shape.dims[static_cast<size_t>(shape.rank - x.rank + i)];
        if (x.dims[static_cast<size_t>(i)] != 1) dim = x.dims[static_cast<size_t>(i)];
      }
    }
    return shape;
  }

  float* line(size_t i) { return scratch_ + options_.program_floats + static_cast<int64_t>(i) * line_; }

  // Operand i's row: in place where it is whole vectors of floats; an operand that does not change is copied once.
  const float* read(size_t i, int64_t r) {
    const tensor::View& x = call_.inputs[i];
    const int64_t stride = broadcast_.last_stride(i);
    const int64_t offset = broadcast_.row_offset(i, r);
    if (x.dtype == tensor::DType::kF32 && stride == 1 && width_ % kVector == 0) return x.as<const float>() + offset;
    float* copy = line(i);
    if (rows_[i] != nullptr && x.num_rows() == 1) return copy;
    const int64_t taken = stride == 0 ? 1 : width_;
    if (x.dtype == tensor::DType::kF32) {
      std::memcpy(copy, x.as<const float>() + offset, static_cast<size_t>(taken) * sizeof(float));
    } else {
      decode_elements(x, offset, taken, copy);
    }
    std::fill(copy + taken, copy + line_, stride == 0 ? copy[0] : 0.0f);
    return copy;
  }

  void run_stage(size_t s, int64_t r) {
    const Stage& stage = options_.stages[s];
    const size_t at = call_.inputs.size() + s;
    float* to = target(s, r);
    double sum = 0;
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t first = 0; first < width_; first += kChunk) {
      const int64_t count = std::min(kChunk, width_ - first);
      for (size_t i = 0; i < at; ++i) chunk_[i] = stage.reads[i] ? rows_[i] + first : nullptr;
      stage.program.run(ops_, {chunk_.data(), at}, padded(count), scratch_, to + first);
      if (stage.reduce == Reduce::kMax) top = max_of_chunk(to + first, count, top);
      if (stage.reduce == Reduce::kSum || stage.reduce == Reduce::kMean) sum += sum_of_chunk(to + first, count);
    }
    if (stage.reduce != Reduce::kNone) {
      if (stage.reduce == Reduce::kMean) sum /= static_cast<double>(width_);
      std::fill(to, to + line_, stage.reduce == Reduce::kMax ? top : static_cast<float>(sum));
    }
    rows_[at] = to;
  }

  // Where a stage is evaluated: in its result where that has room for whole vectors, else in scratch.
  float* target(size_t s, int64_t r) {
    if (options_.stages[s].reduce == Reduce::kNone && width_ % kVector == 0) {
      for (size_t i = 0; i < options_.results.size(); ++i) {
        if (options_.results[i] == static_cast<int64_t>(s)) return call_.outputs[i].as<float>() + r * width_;
      }
    }
    return line(call_.inputs.size() + s);
  }

  void write(size_t i, int64_t r) {
    const int64_t count = row_elements(call_.outputs[i]);
    float* out = call_.outputs[i].as<float>() + r * count;
    const float* from = rows_[call_.inputs.size() + static_cast<size_t>(options_.results[i])];
    if (out != from) std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
  }

  const KernelCall& call_;
  const Options& options_;
  const VectorOps& ops_;
  tensor::View shape_;
  Broadcast broadcast_;
  int64_t width_ = 0;
  int64_t line_ = 0;
  float* scratch_ = nullptr;
  SmallVector<const float*, 16> rows_;  // of operands, then stages; null: not read yet
  SmallVector<const float*, 16> chunk_;
};

template <const VectorOps& (*kOps)()>
void run(const KernelCall& call, Worker& worker) {
  Run run(call, static_cast<const Options&>(*call.prepared), kOps(), worker);
  for_rows(worker, run.num_rows(), [&](int64_t r) { run.row(r); });
}

}  // namespace

std::span<const KernelBody> fused_rows_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"fused_rows_any_f32_avx2", prepare, run<vector_ops_avx2>, nullptr},
                                           {"fused_rows_any_f32_avx512", prepare, run<vector_ops_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
