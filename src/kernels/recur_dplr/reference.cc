// SPDX-License-Identifier: Apache-2.0
// The reference recur_dplr: one token after the other, the state of a head in float64 from the first token of the batch
// to the last.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

// One token: `state` is [value][key], `factor` scratch of the key's width.
void step(const KernelCall& call, int64_t at, int64_t key, int64_t value, std::vector<double>& state,
          std::vector<double>& factor) {
  const auto row = [&](size_t operand, int64_t width) { return call.inputs[operand].as<const float>() + at * width; };
  const float *r = row(0, key), *w = row(1, key), *k = row(2, key), *v = row(3, value), *a = row(4, key);
  const float* b = row(5, key);
  float* y = call.outputs[0].as<float>() + at * value;
  for (int64_t i = 0; i < key; ++i) factor[static_cast<size_t>(i)] = std::exp(static_cast<double>(w[i]));
  for (int64_t j = 0; j < value; ++j) {
    double* line = state.data() + j * key;
    double seen = 0;
    for (int64_t i = 0; i < key; ++i) seen += line[i] * static_cast<double>(a[i]);
    double sum = 0;
    for (int64_t i = 0; i < key; ++i) {
      line[i] = line[i] * factor[static_cast<size_t>(i)] + seen * static_cast<double>(b[i]) +
                static_cast<double>(v[j]) * static_cast<double>(k[i]);
      sum += line[i] * static_cast<double>(r[i]);
    }
    y[j] = static_cast<float>(sum);
  }
}

void run(const KernelCall& call, Worker& worker) {
  const int64_t heads = call.inputs[0].dim(1), key = call.inputs[0].dim(2), value = call.inputs[3].dim(2);
  std::vector<double> state(static_cast<size_t>(key * value));
  std::vector<double> factor(static_cast<size_t>(key));
  for_parts(call, worker, heads, [&](size_t s, const plan::SequenceSpan& sequence, int64_t head) {
    float* stored = fixed_state(call, s) + head * key * value;
    for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<double>(stored[i]);
    for (int64_t t = 0; t < sequence.num_tokens; ++t) {
      step(call, (sequence.first_row + t) * heads + head, key, value, state, factor);
    }
    for (size_t i = 0; i < state.size(); ++i) stored[i] = static_cast<float>(state[i]);
  });
}

}  // namespace

KernelBody recur_dplr_reference() {
  KernelBody body;
  body.symbol = "recur_dplr_f32_f32_ref";
  body.prepare = prepare_fixed_state;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
