// SPDX-License-Identifier: Apache-2.0
// conv1d's attributes decoded, and its state moved on; shared by all its bodies.
#pragma once

#include <cstring>
#include <memory>

#include "kernels/common/pages.h"
#include "kernels/kernel.h"

namespace firstlight::kernels {

struct Conv1dOptions final : Prepared {
  size_t component = 0;
  int64_t dilation = 1;
};

inline Result<std::unique_ptr<Prepared>> prepare_conv1d(const PrepareInput& input) {
  auto options = std::make_unique<Conv1dOptions>();
  const int index = input.state->component_index(input.signature.attributes.get_string("component"));
  FL_CHECK(index >= 0);
  options->component = static_cast<size_t>(index);
  options->dilation = input.signature.attributes.get_int("dilation");
  return std::unique_ptr<Prepared>(std::move(options));
}

// The rows before the batch, oldest first: [kept][channels].
inline float* conv1d_state(const KernelCall& call, size_t s) {
  const auto& component = call.state->components[static_cast<const Conv1dOptions&>(*call.prepared).component];
  return reinterpret_cast<float*>(state_row(*call.state, component, s, 0, 0));
}

// Makes the last `kept` rows of (state, x) the state, for `count` of `channels` channels from both pointers on.
inline void keep_last_rows(float* state, const float* x, int64_t num_tokens, int64_t kept, int64_t channels,
                           int64_t count) {
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  for (int64_t r = 0; r < kept; ++r) {  // upwards: a row's source lies at or behind it
    const int64_t from = r + num_tokens;
    std::memmove(state + r * channels, from < kept ? state + from * channels : x + (from - kept) * channels, bytes);
  }
}

}  // namespace firstlight::kernels
