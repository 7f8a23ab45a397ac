// SPDX-License-Identifier: Apache-2.0
// The reference map: float64, one rounding at the end.
#include "kernels/common/broadcast.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  ops::Expression expr;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->expr = input.signature.attributes.get_expression("expr");
  return std::unique_ptr<Prepared>(std::move(options));
}

constexpr int64_t kChunk = 256;

// values[term][element] for `count` elements whose operands are in `inputs`.
void evaluate(const ops::Expression& expr, const std::vector<std::vector<float>>& inputs, int64_t count,
              std::vector<std::vector<double>>& values) {
  const auto terms = expr.terms();
  for (size_t t = 0; t < terms.size(); ++t) {
    const ops::ExprTerm& term = terms[t];
    const auto arg = [&](int k) -> const double* {
      return term.args[k] < 0 ? nullptr : values[static_cast<size_t>(term.args[k])].data();
    };
    const double* a = arg(0);
    const double* b = arg(1);
    const double* c = arg(2);
    double* out = values[t].data();
    for (int64_t i = 0; i < count; ++i) {
      if (term.op == ops::ExprOp::kInput) {
        out[i] = static_cast<double>(inputs[static_cast<size_t>(term.input)][static_cast<size_t>(i)]);
      } else if (term.op == ops::ExprOp::kConstant) {
        out[i] = term.constant;
      } else {
        out[i] = ops::evaluate_op(term.op, a[i], b != nullptr ? b[i] : 0, c != nullptr ? c[i] : 0);
      }
    }
  }
}

void run(const KernelCall& call, Worker& worker) {
  const ops::Expression& expr = static_cast<const Options&>(*call.prepared).expr;
  const tensor::View& out = call.outputs[0];
  const Broadcast broadcast(call.inputs, out);
  std::vector<std::vector<float>> inputs(call.inputs.size(), std::vector<float>(kChunk));
  std::vector<std::vector<double>> values(expr.terms().size(), std::vector<double>(kChunk));
  const int64_t width = row_elements(out);
  for_rows(worker, out.num_rows(), [&](int64_t row) {
    for (int64_t first = 0; first < width; first += kChunk) {
      const int64_t count = std::min(kChunk, width - first);
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        const int64_t from = broadcast.row_offset(i, row) + first * broadcast.last_stride(i);
        decode_elements(call.inputs[i], from, broadcast.last_stride(i) == 0 ? 1 : count, inputs[i].data());
        if (broadcast.last_stride(i) == 0) std::fill_n(inputs[i].begin() + 1, count - 1, inputs[i][0]);
      }
      evaluate(expr, inputs, count, values);
      float* to = out.as<float>() + row * width + first;
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(values.back()[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace

KernelBody map_reference() {
  KernelBody body;
  body.symbol = "map_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
