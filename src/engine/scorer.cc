// SPDX-License-Identifier: Apache-2.0
#include "engine/scorer.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "plan/look_ahead.h"

namespace firstlight::engine {

Result<ScoredSequence> ScoredSequence::create(runtime::Executor& executor, int64_t planned_length) {
  ScoredSequence sequence(executor,
                          FL_TRY(kv::StateCache::create(executor.plan().states, {.storage = executor.page_storage()})));
  sequence.planned_length_ = planned_length;
  sequence.ids_[0] = sequence.cache_.add_sequence();
  for (const auto& output : executor.plan().outputs) {
    if (output.name != "logits" && (output.name != "hidden" || sequence.output_ == "logits")) continue;
    const tensor::Shape& shape = executor.plan().buffer(output.buffer).type.shape;
    sequence.output_ = output.name;
    sequence.width_ = shape.back().factor;
    sequence.every_token_ = shape[0].symbol == tensor::Symbol::kTokens;
  }
  const ops::Attribute* vocabulary = executor.plan().metadata.find("vocabulary");
  sequence.vocab_ =
      sequence.output_ == "logits" || vocabulary == nullptr ? sequence.width_ : std::get<int64_t>(*vocabulary);
  if (sequence.vocab_ == 0) return invalid_argument("the model has neither an output 'logits' nor one 'hidden'");
  return sequence;
}

ScoredSequence::ScoredSequence(runtime::Executor& executor, kv::StateCache cache)
    : executor_(&executor), cache_(std::move(cache)) {}

Status ScoredSequence::check_tokens(std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_) {
      return invalid_argument("token " + std::to_string(token) + ", an id below " + std::to_string(vocab_) + " wanted");
    }
  }
  return ok_status();
}

Status ScoredSequence::check_pieces(size_t tokens, size_t piece) const {
  if (length() > 0 || tokens <= piece || !plan::sees_later_tokens(executor_->plan())) return ok_status();
  return invalid_argument("the model's attention sees later tokens, so that a prompt must be run in one piece: " +
                          std::to_string(tokens) + " tokens in pieces of " + std::to_string(piece) + " asked");
}

Status ScoredSequence::feed(std::span<const int32_t> tokens, int64_t chunk, int64_t first_row,
                            const RowVisitor& visit) {
  FL_TRY(check_tokens(tokens));
  const int64_t most = std::min(executor_->max_batch_tokens(), executor_->max_batch_outputs());
  const auto piece = static_cast<size_t>(chunk > 0 ? std::min(chunk, most) : most);
  FL_TRY(check_pieces(tokens.size(), piece));
  std::vector<int32_t> rows;
  for (size_t at = 0; at < tokens.size(); at += piece) {
    const auto part = tokens.subspan(at, std::min(piece, tokens.size() - at));
    rows.clear();
    const auto count = static_cast<int64_t>(part.size());
    for (int64_t i = std::max<int64_t>(0, first_row - length()); i < count; ++i)
      rows.push_back(static_cast<int32_t>(i));
    FL_TRY(run(part, rows, visit));
  }
  return ok_status();
}

Status ScoredSequence::feed_for_rows(std::span<const int32_t> tokens, int64_t chunk, std::span<const int64_t> wanted,
                                     const RowVisitor& visit) {
  FL_TRY(check_tokens(tokens));
  const int64_t most = executor_->max_batch_tokens();
  const auto piece = static_cast<size_t>(chunk > 0 ? std::min(chunk, most) : most);
  const auto most_rows = static_cast<size_t>(executor_->max_batch_outputs());
  std::vector<int32_t> rows;
  for (size_t at = 0; at < tokens.size();) {
    rows.clear();
    const int64_t start = length();
    auto end = std::min(at + piece, tokens.size());
    const auto reach = start + static_cast<int64_t>(end - at);
    for (auto row = std::lower_bound(wanted.begin(), wanted.end(), start); row != wanted.end() && *row < reach; ++row) {
      if (rows.size() == most_rows) {
        end = at + static_cast<size_t>(rows.back()) + 1;
        break;
      }
      rows.push_back(static_cast<int32_t>(*row - start));
    }
    FL_TRY(check_pieces(tokens.size(), end - at));
    FL_TRY(run(tokens.subspan(at, end - at), rows, visit));
    at = end;
  }
  return ok_status();
}

Status ScoredSequence::run(std::span<const int32_t> tokens, std::span<const int32_t> rows, const RowVisitor& visit) {
  const int64_t start = length();
  const auto count = static_cast<int64_t>(tokens.size());
  FL_TRY(cache_.extend(ids_[0], start + count));
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
  const plan::SequenceSpan span{
      .first_row = 0, .num_tokens = count, .start_position = start, .planned_length = planned_length_};
  FL_TRY(executor_->run({.tokens = tokens, .positions = positions, .output_rows = rows, .sequences = {&span, 1}},
                        cache_.views(ids_)));
  const tensor::View output = executor_->output(output_);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = every_token_ ? rows[i] : static_cast<int64_t>(i);
    visit(start + rows[i], {output.as<float>() + row * width_, static_cast<size_t>(width_)});
  }
  return ok_status();
}

Status score(runtime::Executor& executor, std::span<const int32_t> tokens, const ScoreOptions& options,
             const RowVisitor& visit) {
  ScoredSequence sequence = FL_TRY(ScoredSequence::create(executor, static_cast<int64_t>(tokens.size())));
  return sequence.feed(tokens, options.chunk, options.first_row, visit);
}

}  // namespace firstlight::engine
