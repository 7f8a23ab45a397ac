// SPDX-License-Identifier: Apache-2.0
// append: rows rounded into the pages.
#include "kernels/common/pages.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const plan::StateView& state = *call.state;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = call.batch->sequences[s];
    for_rows(worker, sequence.num_tokens, [&](int64_t i) {
      for (size_t c = 0; c < state.components.size(); ++c) {
        const plan::StateComponentView& component = state.components[c];
        const int64_t row_floats = component.heads * component.width;
        const float* from = call.inputs[c + 1].as<const float>() + (sequence.first_row + i) * row_floats;
        for (int64_t h = 0; h < component.heads; ++h) {
          std::byte* to = state_row(state, component, s, sequence.start_position + i, h);
          const auto bytes = static_cast<size_t>(state_row_bytes(component));
          const std::span values(from + h * component.width, static_cast<size_t>(component.width));
          FL_CHECK(tensor::encode_from_f32(component.dtype, values, {to, bytes}).ok());
        }
      }
    });
  }
}

}  // namespace

KernelBody append_reference() {
  KernelBody body;
  body.symbol = "append_f32_any_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
