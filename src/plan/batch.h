// SPDX-License-Identifier: Apache-2.0
// One run's input: the packed tokens of one or more sequences, and where each sequence's state lies. Built by the
// engine for each step; kernels read it. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace firstlight::plan {

// Tokens of one sequence in the batch: rows first_row .. first_row + num_tokens - 1 of every [T, ...] tensor.
struct SequenceSpan {
  int64_t first_row = 0;
  int64_t num_tokens = 0;
  int64_t start_position = 0;  // tokens of this sequence that are in its state already
  int64_t planned_length =
      0;  // the most tokens this sequence can reach (prompt + limit): picks its rope table for good
};

struct Batch {
  std::span<const int32_t> tokens;       // [T]
  std::span<const int32_t> positions;    // [T]; row r of sequence s: start_position + (r - first_row)
  std::span<const int32_t> output_rows;  // [O]: rows whose logits are wanted, ascending
  std::span<const SequenceSpan> sequences;
  // What a token gets must not depend on what else is in the batch, nor on the pieces its sequence came in, nor on the
  // number of workers: kernels choose their form by fixed rules (docs/determinism.md).
  bool invariant = false;
};

// Groups of `rate` tokens (tokens j rate .. j rate + rate - 1 of a sequence) that the sequence completes here.
inline int64_t groups_completed(const SequenceSpan& sequence, int64_t rate) {
  return (sequence.start_position + sequence.num_tokens) / rate - sequence.start_position / rate;
}

// The same of the whole batch: the rows that the symbol G<rate> stands for, in the batch's order of sequences.
inline int64_t groups_completed(const Batch& batch, int64_t rate) {
  int64_t count = 0;
  for (const SequenceSpan& sequence : batch.sequences) count += groups_completed(sequence, rate);
  return count;
}

// A component of a paged state as kernels see it. In a page the component occupies [heads][page_rows][width] elements
// of `dtype`, starting `offset_bytes` into the page.
struct StateComponentView {
  tensor::DType dtype = tensor::DType::kF32;  // f32, f16 or bf16
  int64_t heads = 1;
  int64_t width = 0;
  int64_t offset_bytes = 0;
};

// The pages of one state for every sequence of the batch, in the batch's order. Row p of a sequence (p = position for
// an append log, number of the group for a log at a rate) is row p % page_rows of page p / page_rows.
struct StateView {
  int64_t page_rows = 0;
  std::span<const StateComponentView> components;
  std::span<const std::span<std::byte* const>> pages;  // [sequence][page]
};

}  // namespace firstlight::plan
