// SPDX-License-Identifier: Apache-2.0
#include "gates/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/sampler.h"
#include "engine/scorer.h"

namespace firstlight::gates {

Result<Perplexity> perplexity(runtime::Executor& executor, std::span<const int32_t> tokens,
                              const PerplexityOptions& options) {
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t prefix = options.bos ? 1 : 0;
  const int64_t room = options.window - prefix;  // text tokens per window
  if (total < 2) return invalid_argument("the text has " + std::to_string(total) + " tokens, at least 2 wanted");
  if (room < 1 || options.window < 2 || options.stride < 1 || options.stride > options.window) {
    return invalid_argument("window " + std::to_string(options.window) + " and stride " +
                            std::to_string(options.stride) +
                            ": a window of 2 or more and a stride from 1 to the window wanted");
  }
  const int64_t stride = std::min(options.stride, room);
  Perplexity result;
  double sum = 0;
  Status sound = ok_status();
  int64_t scored_to = 0;  // text tokens before it are scored, or have nothing in front of them
  for (int64_t start = 0; scored_to < total; start += stride) {
    const int64_t end = std::min(start + room, total);
    std::vector<int32_t> window;
    window.reserve(static_cast<size_t>(end - start + prefix));
    if (options.bos) window.push_back(*options.bos);
    window.insert(window.end(), tokens.begin() + start, tokens.begin() + end);
    // Row r of the logits predicts window[r + 1].
    const int64_t first_scored = std::max(scored_to - start + prefix, int64_t{1});
    FL_TRY(engine::score(executor, window, {.first_row = first_scored - 1},
                         [&](int64_t row, std::span<const float> logits) {
                           if (row + 1 >= static_cast<int64_t>(window.size())) return;
                           if (sound.ok()) sound = engine::check_logits(logits);
                           const auto next = static_cast<size_t>(window[static_cast<size_t>(row) + 1]);
                           sum += engine::log_sum_exp(logits) - logits[next];
                           ++result.scored_tokens;
                         }));
    if (!sound.ok()) return sound;
    scored_to = end;
    ++result.num_windows;
    if (options.progress) options.progress(end, total);
  }
  result.perplexity = std::exp(sum / static_cast<double>(result.scored_tokens));
  return result;
}

}  // namespace firstlight::gates
