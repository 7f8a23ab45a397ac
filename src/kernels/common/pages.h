// SPDX-License-Identifier: Apache-2.0
// Where the rows of a paged state lie (plan/batch.h has the layout).
#pragma once

#include "plan/batch.h"
#include "tensor/state_rows.h"

namespace firstlight::kernels {

// Bytes of one head's part of a row.
inline int64_t state_row_bytes(const plan::StateComponentView& component) {
  return tensor::state_row_bytes(component.dtype, component.width);
}

// Row `row % page_rows` of head `head` in a page; the rows of a head follow each other.
inline std::byte* page_row(const plan::StateView& state, const plan::StateComponentView& component, std::byte* page,
                           int64_t row_in_page, int64_t head) {
  return page + component.offset_bytes + (head * state.page_rows + row_in_page) * state_row_bytes(component);
}

inline std::byte* state_row(const plan::StateView& state, const plan::StateComponentView& component, size_t sequence,
                            int64_t row, int64_t head) {
  std::byte* page = state.pages[sequence][static_cast<size_t>(row / state.page_rows)];
  return page_row(state, component, page, row % state.page_rows, head);
}

}  // namespace firstlight::kernels
