// SPDX-License-Identifier: Apache-2.0
// rope's attributes decoded, and the frequencies that hold for each sequence of a batch; shared by all its bodies.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace firstlight::kernels {

struct RopeTable {
  std::vector<double> freqs;  // radians per position, length/2
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

// The table of a sequence that is planned to reach `planned_length` tokens.
RopeTable rope_table(const RopeOptions& options, int64_t planned_length);

// One table per sequence of the batch (at least one: the plain table where there is no batch).
std::vector<RopeTable> rope_tables(const RopeOptions& options, const plan::Batch* batch);

// Index into them for row `row` of a [T, ..] tensor.
size_t rope_table_of_row(const plan::Batch* batch, int64_t row);

}  // namespace firstlight::kernels
