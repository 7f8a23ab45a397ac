// SPDX-License-Identifier: Apache-2.0
// append on the CPU: rows rounded on their way into the pages.
#include "kernels/append/spans.h"
#include "kernels/append/store_row.h"
#include "kernels/bodies.h"
#include "kernels/common/pages.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void append_row(const KernelCall& call, const AppendSpan& span, int64_t i) {
  const plan::StateView& state = *call.state;
  for (size_t c = 0; c < state.components.size(); ++c) {
    const plan::StateComponentView& component = state.components[c];
    const float* from = call.inputs[c + 1].as<const float>() + (span.first_row + i) * component.heads * component.width;
    for (int64_t h = 0; h < component.heads; ++h) {
      store_row(component.dtype, from + h * component.width, component.width,
                state_row(state, component, span.sequence, span.first_at + i, h));
    }
  }
}

// The rows of all sequences together are shared out: a batch of many one-token sequences keeps every worker busy.
void run(const KernelCall& call, Worker& worker) {
  int64_t total = 0;
  for_append_spans(call, [&](const AppendSpan& span) { total += span.count; });
  const Worker::Range range = worker.share(total);
  for_append_spans(call, [&](const AppendSpan& span) {
    const int64_t begin = std::max<int64_t>(0, range.begin - span.first_row);
    const int64_t end = std::min(span.count, range.end - span.first_row);
    for (int64_t i = begin; i < end; ++i) append_row(call, span, i);
  });
}

}  // namespace

std::span<const KernelBody> append_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"append_f32_any_avx2", prepare_append, run, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
