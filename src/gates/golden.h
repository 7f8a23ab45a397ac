// SPDX-License-Identifier: Apache-2.0
// Golden prompts: token ids whose logits and continuation are known, and the check that a loaded plan reproduces them.
// Readiness hangs on it: a replica that cannot is not ready, however well it answers otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapt/bring_up.h"
#include "adapt/text_assets.h"
#include "gates/logits_bound.h"

namespace firstlight::gates {

struct Golden {
  std::string origin;           // "reference backend", or where the recording comes from
  std::vector<int32_t> tokens;  // prompt, then continuation
  int64_t num_prompt = 0;
  int64_t first_row = 0;                   // logits are known from this position on
  std::vector<std::vector<float>> logits;  // a row per position from first_row
};

// A prompt to make a golden from: a plain sentence by the model's tokenizer, or where it has none ids from all over the
// vocabulary.
std::vector<int32_t> default_golden_prompt(const adapt::TextAssets& assets, int64_t vocab_size);

// Runs the model on the reference backend: the logits of `prompt` and of a greedy continuation. The checkpoint's
// weights are read in place, so this needs little memory, and time for about (prompt + continuation) * parameters
// multiplications. Errors: kInvalidData (logits that are no numbers: of the weights, or of the spec).
Result<Golden> make_golden(const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options,
                           const std::vector<int32_t>& prompt, int64_t continuation);

// A recording: DIRECTORY/golden.json ("prompt", and "reference" saying where it comes from) with
// DIRECTORY/golden.safetensors
// ("logits", f32 [positions, vocabulary]). Errors: kNotFound, kInvalidData (logits that are no numbers among them).
Result<Golden> read_golden(const std::string& directory);

struct GoldenCheck {
  bool passed = false;
  double bound = 0;  // wanted: rel_l2 of each row at most this, best tokens equal wherever the golden's margin decides
  double worst_rel_l2 = 0;
  double worst_max_abs = 0;
  double least_cosine = 1;
  int64_t rows = 0, best_equal = 0, best_undecided = 0;
  int64_t first_wrong = -1;  // position of the first row out of bounds
};

// Feeds the golden's tokens (prompt at once, the continuation one by one) and compares each row.
Result<GoldenCheck> reproduce(runtime::Executor& executor, const Golden& golden);

}  // namespace firstlight::gates
