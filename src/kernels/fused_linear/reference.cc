// SPDX-License-Identifier: Apache-2.0
// The reference fused_linear: exactly what its parts would give one after the other, each rounded to float32.
#include <cmath>

#include "kernels/common/dot.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  ops::FusedLinearOperands places;
  bool rms = false;
  double eps = 0;
  double offset = 0;
  std::vector<ops::Expression> epilogue;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const ops::Attributes& attributes = input.signature.attributes;
  options->places = ops::fused_linear_operands(attributes);
  options->rms = attributes.get_string("norm") == "rms";
  options->eps = attributes.get_float("norm_eps");
  options->offset = attributes.get_float("norm_offset");
  options->epilogue = attributes.get_expressions("epilogue");
  return std::unique_ptr<Prepared>(std::move(options));
}

// The rows that the weights see: normalised into the workspace, or x itself.
const float* prepare_rows(const KernelCall& call, const Options& options, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const int64_t k = row_elements(x);
  if (!options.rms) return x.as<const float>();
  std::vector<float> weight;
  if (options.places.norm_weight >= 0)
    weight = decode_vector(call.inputs[static_cast<size_t>(options.places.norm_weight)]);
  auto* out = reinterpret_cast<float*>(call.workspace.data());
  for_rows(worker, x.num_rows(), [&](int64_t r) {
    const float* row = x.as<const float>() + r * k;
    double squares = 0;
    for (int64_t i = 0; i < k; ++i) squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    const double root = std::sqrt(squares / static_cast<double>(k) + options.eps);
    for (int64_t i = 0; i < k; ++i) {
      const double factor = weight.empty() ? 1.0 : static_cast<double>(weight[static_cast<size_t>(i)]) + options.offset;
      out[r * k + i] = static_cast<float>(static_cast<double>(row[i]) / root * factor);
    }
  });
  worker.barrier();
  return out;
}

// products[t] for row r of weight i.
void products(const KernelCall& call, const Options& options, const float* rows, int i, int64_t r,
              std::vector<float>& row, float* out) {
  const tensor::View& w = call.inputs[static_cast<size_t>(options.places.first_weight + i)];
  const int64_t k = row_elements(w);
  decode_row(w, r, row.data());
  float bias = 0;
  const int at = options.places.biases[static_cast<size_t>(i)];
  if (at >= 0) decode_elements(call.inputs[static_cast<size_t>(at)], r, 1, &bias);
  for (int64_t t = 0; t < call.inputs[0].num_rows(); ++t) {
    out[t] = static_cast<float>(dot_f64(rows + t * k, row.data(), k) + static_cast<double>(bias));
  }
}

void run_plain(const KernelCall& call, const Options& options, const float* rows, Worker& worker) {
  const int64_t tokens = call.inputs[0].num_rows();
  std::vector<float> row(static_cast<size_t>(row_elements(call.inputs[0])));
  std::vector<float> line(static_cast<size_t>(tokens));
  for (int i = 0; i < options.places.num_weights; ++i) {
    const tensor::View& out = call.outputs[static_cast<size_t>(i)];
    const int64_t width = row_elements(out);
    for_rows(worker, width, [&](int64_t r) {
      products(call, options, rows, i, r, row, line.data());
      for (int64_t t = 0; t < tokens; ++t) out.as<float>()[t * width + r] = line[static_cast<size_t>(t)];
    });
  }
}

void run_epilogue(const KernelCall& call, const Options& options, const float* rows, Worker& worker) {
  const int64_t tokens = call.inputs[0].num_rows();
  const int64_t width = row_elements(call.outputs[0]);
  const auto n = static_cast<size_t>(options.places.num_weights);
  const auto extras = static_cast<size_t>(options.places.num_extras);
  std::vector<float> row(static_cast<size_t>(row_elements(call.inputs[0])));
  std::vector<float> lines(n * static_cast<size_t>(tokens));
  std::vector<double> inputs(n + extras);
  for_rows(worker, width, [&](int64_t r) {
    for (size_t i = 0; i < n; ++i) {
      products(call, options, rows, static_cast<int>(i), r, row, lines.data() + i * static_cast<size_t>(tokens));
    }
    for (int64_t t = 0; t < tokens; ++t) {
      for (size_t i = 0; i < n; ++i) {
        inputs[i] = static_cast<double>(lines[i * static_cast<size_t>(tokens) + static_cast<size_t>(t)]);
      }
      for (size_t i = 0; i < extras; ++i) {
        const tensor::View& extra = call.inputs[static_cast<size_t>(options.places.first_extra) + i];
        float value = 0;
        decode_elements(extra, extra.rank == 1 && call.outputs[0].rank > 1 ? r : t * width + r, 1, &value);
        inputs[n + i] = static_cast<double>(value);
      }
      for (size_t e = 0; e < options.epilogue.size(); ++e) {
        call.outputs[e].as<float>()[t * width + r] = static_cast<float>(options.epilogue[e].evaluate(inputs));
      }
    }
  });
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const float* rows = prepare_rows(call, options, worker);
  if (call.inputs[0].num_rows() == 0) return;
  if (options.epilogue.empty()) {
    run_plain(call, options, rows, worker);
  } else {
    run_epilogue(call, options, rows, worker);
  }
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues& values, int) {
  if (signature.attributes.get_string("norm") != "rms") return 0;
  return tensor::num_elements(signature.operands[0].shape, values) * 4;
}

}  // namespace

KernelBody fused_linear_reference() {
  KernelBody body;
  body.symbol = "fused_linear_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  body.workspace_bytes = workspace_bytes;
  return body;
}

}  // namespace firstlight::kernels
