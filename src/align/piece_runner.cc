// SPDX-License-Identifier: Apache-2.0
#include "align/piece_runner.h"

#include <algorithm>
#include <numeric>

namespace firstlight::align {

std::vector<std::vector<Piece>> plan_pieces(const Prompts& prompts, int64_t chunk, bool batched) {
  std::vector<std::vector<Piece>> batches;
  for (size_t p = 0; p < prompts.size(); ++p) {
    const auto length = static_cast<int64_t>(prompts[p].size());
    const int64_t step = chunk > 0 ? chunk : length;
    for (int64_t start = 0, round = 0; start < length; start += step, ++round) {
      const Piece piece{.prompt = p, .start = start, .count = std::min(step, length - start)};
      if (!batched || static_cast<size_t>(round) >= batches.size()) batches.emplace_back();
      (batched ? batches[static_cast<size_t>(round)] : batches.back()).push_back(piece);
    }
  }
  return batches;
}

std::vector<PieceRunner::Rows> PieceRunner::rows_of(std::span<const Piece> pieces, int64_t rate) {
  std::vector<Rows> rows;
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    const int64_t first = piece.start / rate;
    const int64_t count = (piece.start + piece.count) / rate - first;
    rows.push_back({.prompt = piece.prompt, .first_in_batch = at, .first_in_prompt = first, .count = count});
    at += count;
  }
  return rows;
}

tensor::View row_range(const tensor::View& view, int64_t first, int64_t count) {
  tensor::View rows = view;
  const int64_t row_bytes =
      view.dim(0) == 0 ? 0 : view.num_elements() / view.dim(0) * tensor::dtype_info(view.dtype).block_bytes;
  rows.data = static_cast<std::byte*>(view.data) + first * row_bytes;
  rows.dims[0] = count;
  return rows;
}

Result<PieceRunner> PieceRunner::create(runtime::Executor& executor, const Prompts& prompts) {
  auto cache = FL_TRY(kv::StateCache::create(executor.plan().states, {.storage = executor.page_storage()}));
  return PieceRunner(executor, prompts, std::move(cache));
}

PieceRunner::PieceRunner(runtime::Executor& executor, const Prompts& prompts, kv::StateCache cache)
    : executor_(&executor), prompts_(&prompts), cache_(std::move(cache)), ids_(prompts.size(), -1) {}

void PieceRunner::forget(size_t prompt) {
  if (ids_[prompt] >= 0) cache_.remove_sequence(ids_[prompt]);
  ids_[prompt] = -1;
}

Status PieceRunner::run(std::span<const Piece> pieces) {
  std::vector<int32_t> tokens, positions;
  std::vector<plan::SequenceSpan> spans;
  std::vector<kv::SequenceId> ids;
  for (const Piece& piece : pieces) {
    const auto& prompt = (*prompts_)[piece.prompt];
    if (ids_[piece.prompt] < 0) ids_[piece.prompt] = cache_.add_sequence();
    ids.push_back(ids_[piece.prompt]);
    FL_TRY(cache_.extend(ids.back(), piece.start + piece.count));
    spans.push_back({.first_row = static_cast<int64_t>(tokens.size()),
                     .num_tokens = piece.count,
                     .start_position = piece.start,
                     .planned_length = static_cast<int64_t>(prompt.size())});
    tokens.insert(tokens.end(), prompt.begin() + piece.start, prompt.begin() + piece.start + piece.count);
    positions.resize(tokens.size());
    std::iota(positions.end() - piece.count, positions.end(), static_cast<int32_t>(piece.start));
  }
  std::vector<int32_t> rows(tokens.size());  // all of them
  std::iota(rows.begin(), rows.end(), 0);
  return executor_->run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = spans},
                        cache_.views(ids));
}

}  // namespace firstlight::align
