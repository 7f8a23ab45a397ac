// SPDX-License-Identifier: Apache-2.0
#include "engine/scorer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "kv/state_cache.h"

namespace firstlight::engine {

Status score(runtime::Executor& executor, std::span<const int32_t> tokens, const ScoreOptions& options,
             const std::function<void(int64_t row, std::span<const float> logits)>& visit) {
  auto cache = FL_TRY(kv::StateCache::create(executor.plan().states, {}));
  const std::array ids = {cache.add_sequence()};
  const auto total = static_cast<int64_t>(tokens.size());
  int64_t vocab = 0;
  for (const auto& output : executor.plan().outputs) {
    if (output.name == "logits") vocab = executor.plan().buffer(output.buffer).type.shape.back().factor;
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab) {
      return invalid_argument("token " + std::to_string(token) + ", an id below " + std::to_string(vocab) + " wanted");
    }
  }
  const int64_t limit = std::min(executor.max_batch_tokens(), executor.max_batch_outputs());
  const int64_t chunk = options.chunk > 0 ? std::min(options.chunk, limit) : limit;
  for (int64_t start = 0; start < total; start += chunk) {
    const int64_t count = std::min(chunk, total - start);
    FL_TRY(cache.extend(ids[0], start + count));
    std::vector<int32_t> positions(static_cast<size_t>(count)), rows;
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
    for (int64_t i = 0; i < count; ++i) {
      if (start + i >= options.first_row) rows.push_back(static_cast<int32_t>(i));
    }
    const std::array spans = {
        plan::SequenceSpan{.first_row = 0, .num_tokens = count, .start_position = start, .planned_length = total}};
    FL_TRY(executor.run({.tokens = tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(count)),
                         .positions = positions,
                         .output_rows = rows,
                         .sequences = spans},
                        cache.views(ids)));
    const tensor::View logits = executor.output("logits");
    for (size_t i = 0; i < rows.size(); ++i) {
      visit(start + rows[i], {logits.as<float>() + static_cast<int64_t>(i) * vocab, static_cast<size_t>(vocab)});
    }
  }
  return ok_status();
}

}  // namespace firstlight::engine
