// SPDX-License-Identifier: Apache-2.0
// rope's attributes decoded, and the frequencies that hold for each sequence of a batch; shared by all its bodies.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace firstlight::kernels {

struct RopeTable {
  std::vector<double> freqs;  // radians per position, length/2, then zeros up to a multiple of 4
  double scale = 1;
};

struct RopeOptions final : Prepared {
  bool interleaved = false;
  int64_t offset = 0;
  int64_t length = 0;
  bool inverse = false;
  RopeTable plain;
  RopeTable beyond;  // of sequences planned longer than switch_length
  int64_t switch_length = 0;
  double dynamic_base = 0;
  double dynamic_factor = 1;
  double dynamic_max = 0;
};

Result<std::unique_ptr<Prepared>> prepare_rope(const PrepareInput& input);

// The table of a sequence that is planned to reach `planned_length` tokens: one of the options' own, or `space` filled.
const RopeTable& rope_table(const RopeOptions& options, int64_t planned_length, RopeTable& space);

// Calls visit(row, table) for rows [begin, end) of a [T, ..] tensor in order, with the table of the row's sequence (the
// plain one where there is no batch).
template <typename Visit>
void for_rope_rows(const RopeOptions& options, const plan::Batch* batch, int64_t begin, int64_t end, Visit&& visit) {
  const size_t count = batch == nullptr ? 0 : batch->sequences.size();
  RopeTable space;
  const RopeTable* table = count == 0 ? &options.plain : nullptr;
  size_t next = 0;  // the sequence after the current one
  int64_t sequence_end = count == 0 ? end : 0;
  for (int64_t row = begin; row < end; ++row) {
    while (table == nullptr || (row >= sequence_end && next < count)) {
      const plan::SequenceSpan& sequence = batch->sequences[next++];
      sequence_end = sequence.first_row + sequence.num_tokens;
      table = &options.plain;
      if (row < sequence_end) table = &rope_table(options, sequence.planned_length, space);
    }
    visit(row, *table);
  }
}

}  // namespace firstlight::kernels
