// SPDX-License-Identifier: Apache-2.0
// How long a context a loaded model gets here: what was asked for, what the model declares, what memory holds.
#pragma once

#include <cstdint>
#include <string>

#include "adapt/bring_up.h"
#include "base/status.h"

namespace firstlight::cli {

struct ContextWish {
  int64_t context = 0;      // 0: the model's, or as much of it as fits
  int64_t state_bytes = 0;  // room for the state of all sequences; 0: what is free
  int64_t swap_bytes = 0;   // of host memory for states put out
  int64_t step_tokens = 0;  // of one step of the engine; 0: as many as the executor takes
};

struct ContextChoice {
  int64_t context = 0;      // tokens of prompt and output together
  int64_t largest = 0;      // that fits one sequence, at most what the model declares
  int64_t state_bytes = 0;  // room for the state of all sequences
  std::string note;         // why the context is shorter than the model's; empty: it is not
};

// Errors: kInvalidArgument for more bytes than there are (both numbers) or fewer than one token needs (both), and for a
// context that the model does not know or that does not fit (needed and available bytes, and the longest that fits),
// kOutOfMemory where not even one token's state fits into what is free.
Result<ContextChoice> choose_context(const adapt::LoadedModel& loaded, const ContextWish& wish);

}  // namespace firstlight::cli
