// SPDX-License-Identifier: Apache-2.0
// The reference recur_gla: one token after the other, the state of a head in float64 from the first token of the batch
// to the last.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Sizes {
  int64_t groups, heads, key, value;
};

void step(const KernelCall& call, const Sizes& n, int64_t row, int64_t head, const float* constant_decay,
          const float* bonus, std::vector<double>& state) {
  const tensor::View& decays = call.inputs[3];
  const int64_t group = head / (n.heads / n.groups);
  const float* q = call.inputs[0].as<const float>() + (row * n.groups + group) * n.key;
  const float* k = call.inputs[1].as<const float>() + (row * n.groups + group) * n.key;
  const float* v = call.inputs[2].as<const float>() + (row * n.heads + head) * n.value;
  float* y = call.outputs[0].as<float>() + (row * n.heads + head) * n.value;
  std::vector<double> sum(static_cast<size_t>(n.value), 0.0);
  for (int64_t i = 0; i < n.key; ++i) {
    const float log_factor = constant_decay != nullptr ? constant_decay[head]
                             : decays.rank == 2        ? decays.as<const float>()[row * n.heads + head]
                                                       : decays.as<const float>()[(row * n.heads + head) * n.key + i];
    const double factor = std::exp(static_cast<double>(log_factor));
    const auto qi = static_cast<double>(q[i]);
    const auto ki = static_cast<double>(k[i]);
    for (int64_t j = 0; j < n.value; ++j) {
      double& s = state[static_cast<size_t>(i * n.value + j)];
      const double added = ki * static_cast<double>(v[j]);
      const double before = s;
      s = factor * s + added;
      const double seen = bonus == nullptr ? s : before + static_cast<double>(bonus[head * n.key + i]) * added;
      sum[static_cast<size_t>(j)] += qi * seen;
    }
  }
  for (int64_t j = 0; j < n.value; ++j) y[j] = static_cast<float>(sum[static_cast<size_t>(j)]);
}

void run(const KernelCall& call, Worker& worker) {
  const Sizes n{call.inputs[0].dim(1), call.inputs[2].dim(1), call.inputs[0].dim(2), call.inputs[2].dim(2)};
  const std::vector<float> constant = call.inputs[3].rank == 1 ? decode_vector(call.inputs[3]) : std::vector<float>{};
  const std::vector<float> bonus = decode_vector(operand(call.inputs, 5));
  std::vector<double> state(static_cast<size_t>(n.key * n.value));
  for_parts(call, worker, n.heads, [&](size_t s, const plan::SequenceSpan& sequence, int64_t head) {
    float* stored = fixed_state(call, s) + head * n.key * n.value;
    for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<double>(stored[i]);
    for (int64_t t = 0; t < sequence.num_tokens; ++t) {
      step(call, n, sequence.first_row + t, head, constant.empty() ? nullptr : constant.data(),
           bonus.empty() ? nullptr : bonus.data(), state);
    }
    for (size_t i = 0; i < state.size(); ++i) stored[i] = static_cast<float>(state[i]);
  });
}

}  // namespace

KernelBody recur_gla_reference() {
  KernelBody body;
  body.symbol = "recur_gla_f32_f32_ref";
  body.prepare = prepare_fixed_state;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
