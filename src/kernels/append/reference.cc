// SPDX-License-Identifier: Apache-2.0
// append: rows rounded into the pages.
#include "kernels/append/spans.h"
#include "kernels/bodies.h"
#include "kernels/common/pages.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void append_row(const KernelCall& call, const AppendSpan& span, int64_t i) {
  const plan::StateView& state = *call.state;
  for (size_t c = 0; c < state.components.size(); ++c) {
    const plan::StateComponentView& component = state.components[c];
    const int64_t row_floats = component.heads * component.width;
    const float* from = call.inputs[c + 1].as<const float>() + (span.first_row + i) * row_floats;
    for (int64_t h = 0; h < component.heads; ++h) {
      std::byte* to = state_row(state, component, span.sequence, span.first_at + i, h);
      const auto bytes = static_cast<size_t>(state_row_bytes(component));
      const std::span values(from + h * component.width, static_cast<size_t>(component.width));
      FL_CHECK(tensor::encode_row(component.dtype, values, {to, bytes}).ok());
    }
  }
}

void run(const KernelCall& call, Worker& worker) {
  for_append_spans(call, [&](const AppendSpan& span) {
    for_rows(worker, span.count, [&](int64_t i) { append_row(call, span, i); });
  });
}

}  // namespace

KernelBody append_reference() {
  KernelBody body;
  body.symbol = "append_f32_any_ref";
  body.prepare = prepare_append;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
