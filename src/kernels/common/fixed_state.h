// SPDX-License-Identifier: Apache-2.0
// Fixed states as recurrences see them: the attribute `component` decoded, where a sequence's tensor lies, and the
// cutting of the work into (sequence, part) tasks, a part being a head or a block of channels.
#pragma once

#include <memory>

#include "kernels/common/pages.h"
#include "kernels/kernel.h"

namespace firstlight::kernels {

struct FixedStateOptions final : Prepared {
  size_t component = 0;
};

inline Result<std::unique_ptr<Prepared>> prepare_fixed_state(const PrepareInput& input) {
  auto options = std::make_unique<FixedStateOptions>();
  const int index = input.state->component_index(input.signature.attributes.get_string("component"));
  FL_CHECK(index >= 0);
  options->component = static_cast<size_t>(index);
  return std::unique_ptr<Prepared>(std::move(options));
}

// The tensor of sequence `s`, [heads][width] contiguous.
inline float* fixed_state(const KernelCall& call, size_t s) {
  const plan::StateView& state = *call.state;
  const auto& component = state.components[static_cast<const FixedStateOptions&>(*call.prepared).component];
  return reinterpret_cast<float*>(state_row(state, component, s, 0, 0));
}

// Calls body(sequence number, its span, part) for this worker's share of all sequences times `parts`, dealt out one by
// one, so that the parts of a long sequence are spread over the workers. Sequences without tokens are left out.
template <typename Body>
void for_parts(const KernelCall& call, Worker& worker, int64_t parts, Body&& body) {
  const auto sequences = call.batch->sequences;
  const int64_t total = static_cast<int64_t>(sequences.size()) * parts;
  for (int64_t i = worker.index(); i < total; i += worker.count()) {
    const auto s = static_cast<size_t>(i / parts);
    if (sequences[s].num_tokens > 0) body(s, sequences[s], i % parts);
  }
}

}  // namespace firstlight::kernels
