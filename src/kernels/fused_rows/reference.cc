// SPDX-License-Identifier: Apache-2.0
// The reference fused_rows: every stage in float64, rounded where a result is written.
#include <cmath>
#include <limits>

#include "kernels/bodies.h"
#include "kernels/common/broadcast.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::vector<ops::RowStage> stages;
  std::vector<int64_t> results;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->stages = ops::row_stages(input.signature.attributes);
  options->results = input.signature.attributes.get_ints("results");
  return std::unique_ptr<Prepared>(std::move(options));
}

double reduced(ops::RowStage::Reduce reduce, const std::vector<double>& row) {
  if (reduce == ops::RowStage::Reduce::kMax) {
    double top = -std::numeric_limits<double>::infinity();
    for (const double value : row) {
      if (value > top || std::isnan(value)) top = value;  // a NaN stays: nothing is greater than it
    }
    return top;
  }
  double sum = 0;
  for (const double value : row) sum += value;
  return reduce == ops::RowStage::Reduce::kMean ? sum / static_cast<double>(row.size()) : sum;
}

// The shape all operands broadcast to, as a view without data.
tensor::View common_shape(std::span<const tensor::View> inputs) {
  tensor::View shape;
  for (const tensor::View& x : inputs) shape.rank = std::max(shape.rank, x.rank);
  shape.dims.fill(1);
  for (const tensor::View& x : inputs) {
    for (int i = 0; i < x.rank; ++i) {
      int64_t& dim = shape.dims[static_cast<size_t>(shape.rank - x.rank + i)];
      if (x.dims[static_cast<size_t>(i)] != 1) dim = x.dims[static_cast<size_t>(i)];
    }
  }
  return shape;
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View shape = common_shape(call.inputs);
  const auto width = static_cast<size_t>(row_elements(shape));
  const Broadcast broadcast(call.inputs, shape);
  const size_t count = call.inputs.size();
  std::vector<std::vector<double>> rows(count + options.stages.size(), std::vector<double>(width));
  std::vector<float> decoded(width);
  std::vector<double> inputs;
  for_rows(worker, shape.num_rows(), [&](int64_t r) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t stride = broadcast.last_stride(i);
      decode_elements(call.inputs[i], broadcast.row_offset(i, r), stride == 0 ? 1 : static_cast<int64_t>(width),
                      decoded.data());
      for (size_t e = 0; e < width; ++e) rows[i][e] = static_cast<double>(decoded[stride == 0 ? 0 : e]);
    }
    for (size_t s = 0; s < options.stages.size(); ++s) {
      std::vector<double>& row = rows[count + s];
      for (size_t e = 0; e < width; ++e) {
        inputs.clear();
        for (size_t i = 0; i < count + s; ++i) inputs.push_back(rows[i][e]);
        row[e] = options.stages[s].formula.evaluate(inputs);
      }
      if (options.stages[s].reduce != ops::RowStage::Reduce::kNone) {
        row.assign(width, reduced(options.stages[s].reduce, row));
      }
    }
    for (size_t i = 0; i < options.results.size(); ++i) {
      const std::vector<double>& row = rows[count + static_cast<size_t>(options.results[i])];
      const int64_t out_width = row_elements(call.outputs[i]);
      float* out = call.outputs[i].as<float>() + r * out_width;
      for (int64_t e = 0; e < out_width; ++e) out[e] = static_cast<float>(row[static_cast<size_t>(e)]);
    }
  });
}

}  // namespace

KernelBody fused_rows_reference() {
  KernelBody body;
  body.symbol = "fused_rows_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
