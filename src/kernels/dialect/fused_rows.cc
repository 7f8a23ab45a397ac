// SPDX-License-Identifier: Apache-2.0
// fused_rows on devices: a kernel is printed per step, a block of threads per row. Reductions that need none of each
// other share one walk along the row; formulas in between are computed anew in every walk that reads them, so that
// nothing but numbers of the row is kept.
#include <algorithm>

#include "kernels/dialect/broadcast_axes.h"
#include "ops/expression_source.h"

namespace firstlight::kernels {
namespace {

using ops::RowStage;
using Reduce = RowStage::Reduce;

// The shape that operands broadcast to, its last axis included.
tensor::Shape common_shape(std::span<const tensor::Type> operands) {
  tensor::Shape shape;
  for (const tensor::Type& x : operands) shape.resize(std::max(shape.size(), x.shape.size()), tensor::Dim(1));
  for (const tensor::Type& x : operands) {
    for (size_t i = 0; i < x.shape.size(); ++i) {
      tensor::Dim& dim = shape[shape.size() - x.shape.size() + i];
      if (x.shape[i] != tensor::Dim(1)) dim = x.shape[i];
    }
  }
  return shape;
}

tensor::Type without_last(tensor::Type type) {
  if (!type.shape.empty()) type.shape.pop_back();
  return type;
}

class Printer {
 public:
  Printer(std::span<const tensor::Type> operands, std::vector<RowStage> stages, std::vector<int64_t> results)
      : operands_(operands), stages_(std::move(stages)), results_(std::move(results)) {
    for (const RowStage& stage : stages_) {
      int walk = 0;  // that a number of this stage can be had in
      for (const size_t input : inputs_of(stage)) {
        if (input < operands_.size()) continue;
        const size_t before = input - operands_.size();
        walk = std::max(walk, walks_[before] + (stages_[before].reduce == Reduce::kNone ? 0 : 1));
      }
      walks_.push_back(walk);
    }
  }

  std::string source(size_t rank) const {
    const AxesSource axes = axes_source(operands_.size(), rank);
    std::string parameters;
    for (size_t i = 0; i < operands_.size(); ++i) parameters += "FL_GLOBAL(const fl_u8) x" + std::to_string(i) + ", ";
    for (size_t i = 0; i < results_.size(); ++i) parameters += "FL_GLOBAL(float) out" + std::to_string(i) + ", ";
    std::string text = "FL_KERNEL(fused_rows)(" + parameters + "fl_i32 n" + axes.parameters +
                       ") {\n  FL_LOCAL(float, parts, [FL_THREADS]);\n  const fl_i64 row = fl_group_id(0);\n"
                       "  fl_i64 rest = row;\n" +
                       axes.statements;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (is_row(i)) text += "  a" + std::to_string(i) + " *= n;\n";
    }
    const int last = *std::max_element(walks_.begin(), walks_.end());
    for (int walk = 0; walk <= last; ++walk) text += reductions(walk);
    return text + stores() + "}\n";
  }

 private:
  static std::vector<size_t> inputs_of(const RowStage& stage) {
    std::vector<size_t> inputs;
    for (const ops::ExprTerm& term : stage.formula.terms()) {
      if (term.op == ops::ExprOp::kInput) inputs.push_back(static_cast<size_t>(term.input));
    }
    return inputs;
  }

  bool is_row(size_t operand) const {
    const tensor::Shape& shape = operands_[operand].shape;
    return !shape.empty() && shape.back() != tensor::Dim(1);
  }

  // Statements for element e that compute the stages wanted and what they read, each once; v<i> are operands, then
  // stages; reduced ones are r<i>, numbers of the row.
  std::string element(std::vector<bool> wanted) const {
    const size_t count = operands_.size();
    wanted.insert(wanted.begin(), count, false);
    for (size_t s = stages_.size(); s-- > 0;) {
      if (!wanted[count + s]) continue;
      for (const size_t input : inputs_of(stages_[s])) {
        wanted[input] = wanted[input] || input < count || stages_[input - count].reduce == Reduce::kNone;
      }
    }
    std::string text;
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      names.push_back("v" + n);
      if (!wanted[i]) continue;
      text += "    const float v" + n + " = " + load_word(operands_[i].dtype) + "(x" + n + ", a" + n +
              (is_row(i) ? " + e" : "") + ");\n";
    }
    for (size_t s = 0; s < stages_.size(); ++s) {
      const std::string n = std::to_string(count + s);
      if (wanted[count + s]) {
        const auto body = ops::expression_source(stages_[s].formula, names, "t" + n + "_", "    ");
        text += body.statements + "    const float v" + n + " = " + body.value + ";\n";
      }
      names.push_back((stages_[s].reduce == Reduce::kNone ? "v" : "r") + n);
    }
    return text;
  }

  std::string reductions(int walk) const {
    std::vector<bool> wanted(stages_.size());
    std::string begins, steps, ends;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (walks_[s] != walk || stages_[s].reduce == Reduce::kNone) continue;
      wanted[s] = true;
      const std::string n = std::to_string(operands_.size() + s);
      const bool most = stages_[s].reduce == Reduce::kMax;
      begins += "  float r" + n + " = " + (most ? "-FL_INFINITY" : "0.0f") + ";\n";
      steps += most ? "    r" + n + " = fl_max(r" + n + ", v" + n + ");\n" : "    r" + n + " += v" + n + ";\n";
      ends += "  r" + n + " = " + (most ? "fl_block_most" : "fl_block_sum") + "(parts, r" + n + ")" +
              (stages_[s].reduce == Reduce::kMean ? " / (float)n" : "") + ";\n";
    }
    if (begins.empty()) return "";
    return begins + "  FL_EACH(e, n) {\n" + element(std::move(wanted)) + steps + "  }\n" + ends;
  }

  std::string stores() const {
    std::vector<bool> wanted(stages_.size());
    std::string rows, numbers;
    for (size_t i = 0; i < results_.size(); ++i) {
      const auto s = static_cast<size_t>(results_[i]);
      const std::string n = std::to_string(operands_.size() + s);
      const std::string out = "out" + std::to_string(i);
      if (stages_[s].reduce == Reduce::kNone) {
        wanted[s] = true;
        rows += "    " + out + "[row * n + e] = v" + n + ";\n";
      } else {
        numbers += "  if (fl_local_id(0) == 0) " + out + "[row] = r" + n + ";\n";
      }
    }
    return (rows.empty() ? "" : "  FL_EACH(e, n) {\n" + element(std::move(wanted)) + rows + "  }\n") + numbers;
  }

  std::span<const tensor::Type> operands_;
  std::vector<RowStage> stages_;
  std::vector<int64_t> results_;
  std::vector<int> walks_;  // per stage
};

class FusedRows final : public DeviceKernel {
 public:
  FusedRows(device::Kernel kernel, size_t rank, int64_t width)
      : kernel_(std::move(kernel)), rank_(rank), width_(width) {}

  Status launch(const DeviceCall& call) const override {
    std::vector<tensor::View> operands;
    Arguments arguments;
    tensor::View rows;  // the common shape without its last axis
    rows.dims.fill(1);
    for (const DeviceView& x : call.inputs) {
      tensor::View leading = x.view;
      leading.rank = std::max(leading.rank - 1, 0);
      rows.rank = std::max(rows.rank, leading.rank);
      operands.push_back(leading);
      arguments.emplace_back(x.data);
    }
    for (const tensor::View& x : operands) {
      for (int i = 0; i < x.rank; ++i) {
        if (x.dim(i) != 1) rows.dims[static_cast<size_t>(rows.rank - x.rank + i)] = x.dim(i);
      }
    }
    for (const DeviceView& out : call.outputs) arguments.emplace_back(out.data);
    arguments.emplace_back(i32(width_));
    const int64_t count = rows.num_elements();
    if (count == 0) return ok_status();
    FL_TRY(append_axes(broadcast_axes(operands, rows), rank_, arguments));
    return launch_rows(call.queue, kernel_, count, arguments);
  }

 private:
  device::Kernel kernel_;
  size_t rank_;
  int64_t width_;
};

Result<std::unique_ptr<DeviceKernel>> prepare_fused_rows(const DevicePrepare& prepare) {
  const catalog::Signature& signature = prepare.signature;
  const tensor::Type all = tensor::Type::tensor(tensor::DType::kF32, common_shape(signature.operands));
  std::vector<tensor::Type> leading;
  for (const tensor::Type& x : signature.operands) leading.push_back(without_last(x));
  const size_t rank = most_axes(leading, without_last(all));
  const Printer printer(signature.operands, ops::row_stages(signature.attributes),
                        signature.attributes.get_ints("results"));
  auto kernel = FL_TRY(prepare.modules.kernel("dialect/rows.fl.cl", printer.source(rank), {}, "fused_rows"));
  return std::unique_ptr<DeviceKernel>(std::make_unique<FusedRows>(std::move(kernel), rank, all.shape.back().factor));
}

constexpr DeviceBody kBodies[] = {{"fused_rows_any_f32_dialect", prepare_fused_rows}};

}  // namespace

std::span<const DeviceBody> device_fused_rows_bodies() { return kBodies; }

}  // namespace firstlight::kernels
