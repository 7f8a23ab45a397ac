// SPDX-License-Identifier: Apache-2.0
// How a declared state lies in pages: what the cache allocates by (module kv), and what a plan of memory counts by
// (module planner), so that the two cannot disagree. Holds no storage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/state.h"
#include "plan/batch.h"

namespace firstlight::plan {

struct StatePages {
  std::string name;
  bool fixed = false;      // one page for the sequence, not rows
  int64_t window = 0;      // 0: everything is kept
  int64_t kept_pages = 0;  // of a windowed log: that hold the first rows, which stay
  int64_t rate = 1;        // tokens per row
  int64_t page_rows = 0;   // 1 when fixed
  size_t page_bytes = 0;
  std::vector<StateComponentView> components;

  // Pages that rows for so many tokens need, those of a passed window counted in.
  int64_t pages_for(int64_t length) const;
  // Bytes one sequence of that length holds at most, if no step adds more than `step_tokens` (0: not known).
  int64_t bytes_for(int64_t length, int64_t step_tokens) const;
};

// `page_rows`: of a log; fewer at a rate, so that a page is of as many tokens. Errors: kUnsupported for kinds of state
// that have no pages (shared states).
Result<StatePages> pages_of(const ops::StateDecl& decl, int64_t page_rows);

}  // namespace firstlight::plan
