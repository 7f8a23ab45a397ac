// SPDX-License-Identifier: Apache-2.0
// The reference rope_append: exactly what its parts would give one after the other, each rounded to float32.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/pages.h"
#include "kernels/common/rows.h"
#include "kernels/rope/options.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::unique_ptr<Prepared> rope;
  bool rms = false;
  double eps = 0;
  double offset = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->rope = FL_TRY(prepare_rope(input));
  options->rms = input.signature.attributes.get_string("norm") == "rms";
  options->eps = input.signature.attributes.get_float("norm_eps");
  options->offset = input.signature.attributes.get_float("norm_offset");
  return std::unique_ptr<Prepared>(std::move(options));
}

void normalise(const Options& options, const std::vector<float>& weight, std::span<float> head) {
  double squares = 0;
  for (const float value : head) squares += static_cast<double>(value) * static_cast<double>(value);
  const double root = std::sqrt(squares / static_cast<double>(head.size()) + options.eps);
  for (size_t i = 0; i < head.size(); ++i) {
    const double factor = weight.empty() ? 1.0 : static_cast<double>(weight[i]) + options.offset;
    head[i] = static_cast<float>(static_cast<double>(head[i]) / root * factor);
  }
}

void rotate(const RopeOptions& options, const RopeTable& table, int64_t position, float* head) {
  const int64_t half = options.length / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * table.freqs[static_cast<size_t>(i)];
    const double c = std::cos(angle) * table.scale;
    const double s = std::sin(angle) * table.scale * (options.inverse ? -1.0 : 1.0);
    float& a = head[options.offset + (options.interleaved ? 2 * i : i)];
    float& b = head[options.offset + (options.interleaved ? 2 * i + 1 : i + half)];
    const auto x = static_cast<double>(a);
    const auto y = static_cast<double>(b);
    a = static_cast<float>(x * c - y * s);
    b = static_cast<float>(y * c + x * s);
  }
}

void store(const KernelCall& call, size_t component_idx, int64_t row, int64_t head, std::span<const float> values) {
  const plan::StateView& state = *call.state;
  const plan::StateComponentView& component = state.components[component_idx];
  size_t s = 0;
  while (row >= call.batch->sequences[s].first_row + call.batch->sequences[s].num_tokens) ++s;
  const plan::SequenceSpan& sequence = call.batch->sequences[s];
  std::byte* to = state_row(state, component, s, sequence.start_position + row - sequence.first_row, head);
  FL_CHECK(tensor::encode_row(component.dtype, values, {to, static_cast<size_t>(state_row_bytes(component))}).ok());
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const auto& rope = static_cast<const RopeOptions&>(*options.rope);
  const std::vector<float> q_weight = decode_vector(operand(call.inputs, 5));
  const std::vector<float> k_weight = decode_vector(operand(call.inputs, 6));
  const auto* positions = call.inputs[1].as<const int32_t>();
  const Worker::Range range = worker.share(call.inputs[2].dim(0));
  for_rope_rows(rope, call.batch, range.begin, range.end, [&](int64_t t, const RopeTable& table) {
    for (const size_t at : {size_t{2}, size_t{3}}) {
      const tensor::View& x = call.inputs[at];
      const int64_t width = row_elements(x);
      const int64_t heads = x.dim(1);
      for (int64_t h = 0; h < heads; ++h) {
        const float* from = x.as<const float>() + (t * heads + h) * width;
        std::vector<float> head(from, from + width);
        if (options.rms) normalise(options, at == 2 ? q_weight : k_weight, head);
        rotate(rope, table, positions[t], head.data());
        if (at == 2) {
          std::copy(head.begin(), head.end(), call.outputs[0].as<float>() + (t * heads + h) * width);
        } else {
          store(call, 0, t, h, head);
        }
      }
    }
    const plan::StateComponentView& values = call.state->components[1];
    for (int64_t h = 0; h < values.heads; ++h) {
      const float* from = call.inputs[4].as<const float>() + (t * values.heads + h) * values.width;
      store(call, 1, t, h, {from, static_cast<size_t>(values.width)});
    }
  });
}

}  // namespace

KernelBody rope_append_reference() {
  KernelBody body;
  body.symbol = "rope_append_f32_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
