// SPDX-License-Identifier: Apache-2.0
// The reference attend: per query and head, all scores, then one softmax, in float64.
#include <cmath>
#include <limits>

#include "kernels/attend/options.h"
#include "kernels/common/dot.h"
#include "kernels/common/pages.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Scratch {
  std::vector<double> scores;
  std::vector<double> sums;
  std::vector<float> row;
};

const float* decoded(const plan::StateComponentView& component, const std::byte* at, std::vector<float>& row) {
  if (component.dtype == tensor::DType::kF32) return reinterpret_cast<const float*>(at);
  const auto bytes = static_cast<size_t>(state_row_bytes(component));
  FL_CHECK(
      tensor::decode_to_f32(component.dtype, {at, bytes}, {row.data(), static_cast<size_t>(component.width)}).ok());
  return row.data();
}

void attend_one(const KernelCall& call, const AttendOptions& options, size_t s, int64_t token, int64_t head,
                const std::vector<float>& sinks, Scratch& scratch) {
  const plan::StateView& state = *call.state;
  const plan::SequenceSpan& sequence = call.batch->sequences[s];
  const plan::StateComponentView& keys = state.components[static_cast<size_t>(options.key)];
  const plan::StateComponentView& values = state.components[static_cast<size_t>(options.value)];
  const int64_t heads = call.inputs[0].dim(1);
  const int64_t kv_head = head / (heads / keys.heads);
  const int64_t position = sequence.start_position + token;
  const VisibleRange range = visible_range(options, position, sequence.start_position + sequence.num_tokens);
  const int64_t row = sequence.first_row + token;
  const float* q = call.inputs[0].as<const float>() + (row * heads + head) * keys.width;

  scratch.scores.resize(static_cast<size_t>(range.end - range.begin));
  scratch.row.resize(static_cast<size_t>(std::max(keys.width, values.width)));
  const double sink =
      sinks.empty() ? -std::numeric_limits<double>::infinity() : static_cast<double>(sinks[static_cast<size_t>(head)]);
  double top = sink;
  for (int64_t j = range.begin; j < range.end; ++j) {
    const float* k = decoded(keys, state_row(state, keys, s, j, kv_head), scratch.row);
    double score = dot_f64(q, k, keys.width) * options.scale;
    if (!options.score.empty()) {
      const double inputs[4] = {score, static_cast<double>(position), static_cast<double>(j),
                                static_cast<double>(head)};
      score = options.score.evaluate(inputs);
    }
    scratch.scores[static_cast<size_t>(j - range.begin)] = score;
    top = std::max(top, score);
  }

  const int64_t width = options.value_width;
  scratch.sums.assign(static_cast<size_t>(width), 0.0);
  double total = sinks.empty() ? 0.0 : std::exp(sink - top);
  for (int64_t j = range.begin; j < range.end; ++j) {
    const double p = std::exp(scratch.scores[static_cast<size_t>(j - range.begin)] - top);
    total += p;
    const float* v = decoded(values, state_row(state, values, s, j, kv_head), scratch.row);
    for (int64_t i = 0; i < width; ++i) scratch.sums[static_cast<size_t>(i)] += p * static_cast<double>(v[i]);
  }
  float* out = call.outputs[0].as<float>() + (row * heads + head) * width;
  for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(scratch.sums[static_cast<size_t>(i)] / total);
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const AttendOptions&>(*call.prepared);
  const std::vector<float> sinks = decode_vector(operand(call.inputs, 2));
  const int64_t heads = call.inputs[0].dim(1);
  Scratch scratch;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const int64_t total = call.batch->sequences[s].num_tokens * heads;
    // Dealt out one by one, so that late tokens, which see more, are spread over the workers.
    for (int64_t i = worker.index(); i < total; i += worker.count()) {
      attend_one(call, options, s, i / heads, i % heads, sinks, scratch);
    }
  }
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) { return prepare_attend(input); }

}  // namespace

KernelBody attend_reference() {
  KernelBody body;
  body.symbol = "attend_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
