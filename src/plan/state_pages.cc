// SPDX-License-Identifier: Apache-2.0
#include "plan/state_pages.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/state_rows.h"

namespace firstlight::plan {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool has_pages(ops::StateKind kind) {
  return kind == ops::StateKind::kAppendLog || kind == ops::StateKind::kWindowLog || kind == ops::StateKind::kRateLog ||
         kind == ops::StateKind::kFixed || kind == ops::StateKind::kTokenHistory;
}

}  // namespace

int64_t StatePages::pages_for(int64_t length) const {
  if (fixed) return length > 0 ? 1 : 0;
  return (length / rate + page_rows - 1) / page_rows;
}

int64_t StatePages::bytes_for(int64_t length, int64_t step_tokens) const {
  int64_t pages = pages_for(length);
  if (window > 0 && step_tokens > 0) {  // the rows of a window and of a step lie in so many at most
    pages = std::min(pages, kept_pages + (window - 1 + step_tokens + page_rows - 2) / page_rows + 1);
  }
  return pages * static_cast<int64_t>(page_bytes);
}

Result<StatePages> pages_of(const ops::StateDecl& decl, int64_t page_rows) {
  FL_CHECK(page_rows > 0);
  if (!has_pages(decl.kind)) {
    return unsupported("state " + decl.name + ": kind " + std::string(ops::state_kind_name(decl.kind)) +
                       ", append, window, rate, fixed or token_history wanted");
  }
  StatePages state;
  state.name = decl.name;
  state.fixed = decl.kind == ops::StateKind::kFixed;
  const bool windowed = decl.kind == ops::StateKind::kWindowLog || decl.kind == ops::StateKind::kTokenHistory;
  state.window = windowed ? decl.window : 0;
  state.rate = decl.kind == ops::StateKind::kRateLog ? decl.rate : 1;
  FL_CHECK(state.rate >= 1);
  // As many tokens to a page as others have, so that few make a block.
  state.page_rows = state.fixed ? 1 : std::max<int64_t>(1, page_rows / state.rate);
  state.kept_pages = state.window > 0 ? (decl.keep + state.page_rows - 1) / state.page_rows : 0;
  for (const ops::StateComponent& part : decl.components) {
    state.components.push_back({.dtype = part.dtype,
                                .heads = part.heads,
                                .width = part.width,
                                .offset_bytes = static_cast<int64_t>(state.page_bytes)});
    const int64_t row = tensor::state_row_bytes(part.dtype, part.width);
    state.page_bytes += aligned(static_cast<size_t>(part.heads * state.page_rows * row));
  }
  return state;
}

}  // namespace firstlight::plan
