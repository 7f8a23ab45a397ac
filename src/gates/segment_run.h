// SPDX-License-Identifier: Apache-2.0
// One piece of a model's graph, run alone for some prompts with the rows of its inputs given, its outputs' rows kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "align/piece_runner.h"
#include "align/run_taps.h"
#include "align/segments.h"

namespace firstlight::gates {

// All rows of a value: bytes of its type, per prompt.
using PromptRows = std::vector<std::vector<std::byte>>;
using ValueRows = std::map<std::string, PromptRows>;  // by the name the piece has for it

struct SegmentRun {
  const ir::Graph& graph;
  const align::Prompts& prompts;
  std::vector<std::vector<align::Piece>> batches;  // align::plan_pieces
  const ValueRows& inputs;                         // of all inputs beside the batch's own
  const align::Resources& resources;
};

// Rows of every output that has a row per token or per group of tokens. Errors: those of compiler and executor.
Result<ValueRows> run_segment(const SegmentRun& run);

}  // namespace firstlight::gates
