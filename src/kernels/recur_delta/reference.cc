// SPDX-License-Identifier: Apache-2.0
// The reference recur_delta: one token after the other, the state of a head in float64 from the first token of the
// batch to the last.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Sizes {
  int64_t groups, heads, key, value;
};

void decay_state(const KernelCall& call, const Sizes& n, int64_t row, int64_t head, std::vector<double>& state) {
  const tensor::View& decays = call.inputs[3];
  for (int64_t i = 0; i < n.key; ++i) {
    const int64_t at = row * n.heads + head;
    const double factor =
        std::exp(static_cast<double>(decays.as<const float>()[decays.rank == 2 ? at : at * n.key + i]));
    for (int64_t j = 0; j < n.value; ++j) state[static_cast<size_t>(i * n.value + j)] *= factor;
  }
}

// S^T x, for x over the rows of S.
void read_state(const std::vector<double>& state, const float* x, const Sizes& n, std::vector<double>& out) {
  out.assign(static_cast<size_t>(n.value), 0.0);
  for (int64_t i = 0; i < n.key; ++i) {
    for (int64_t j = 0; j < n.value; ++j) {
      out[static_cast<size_t>(j)] += static_cast<double>(x[i]) * state[static_cast<size_t>(i * n.value + j)];
    }
  }
}

void step(const KernelCall& call, const Sizes& n, int64_t row, int64_t head, std::vector<double>& state,
          std::vector<double>& seen) {
  const int64_t group = head / (n.heads / n.groups);
  const float* q = call.inputs[0].as<const float>() + (row * n.groups + group) * n.key;
  const float* k = call.inputs[1].as<const float>() + (row * n.groups + group) * n.key;
  const float* v = call.inputs[2].as<const float>() + (row * n.heads + head) * n.value;
  const auto beta = static_cast<double>(call.inputs[4].as<const float>()[row * n.heads + head]);
  float* y = call.outputs[0].as<float>() + (row * n.heads + head) * n.value;
  decay_state(call, n, row, head, state);
  read_state(state, k, n, seen);
  for (int64_t i = 0; i < n.key; ++i) {
    for (int64_t j = 0; j < n.value; ++j) {
      const double missing = static_cast<double>(v[j]) - seen[static_cast<size_t>(j)];
      state[static_cast<size_t>(i * n.value + j)] += beta * static_cast<double>(k[i]) * missing;
    }
  }
  read_state(state, q, n, seen);
  for (int64_t j = 0; j < n.value; ++j) y[j] = static_cast<float>(seen[static_cast<size_t>(j)]);
}

void run(const KernelCall& call, Worker& worker) {
  const Sizes n{call.inputs[0].dim(1), call.inputs[2].dim(1), call.inputs[0].dim(2), call.inputs[2].dim(2)};
  std::vector<double> state(static_cast<size_t>(n.key * n.value));
  std::vector<double> seen;
  for_parts(call, worker, n.heads, [&](size_t s, const plan::SequenceSpan& sequence, int64_t head) {
    float* stored = fixed_state(call, s) + head * n.key * n.value;
    for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<double>(stored[i]);
    for (int64_t t = 0; t < sequence.num_tokens; ++t) step(call, n, sequence.first_row + t, head, state, seen);
    for (size_t i = 0; i < state.size(); ++i) stored[i] = static_cast<float>(state[i]);
  });
}

}  // namespace

KernelBody recur_delta_reference() {
  KernelBody body;
  body.symbol = "recur_delta_f32_f32_ref";
  body.prepare = prepare_fixed_state;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
