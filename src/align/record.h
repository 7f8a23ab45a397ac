// SPDX-License-Identifier: Apache-2.0
// From a graph and prompts to a golden pack, on any backend: the reference's is a baseline, another's is what a
// baseline is compared with.
#pragma once

#include <set>
#include <string>

#include "align/expert_values.h"
#include "align/pack.h"
#include "align/run_taps.h"

namespace firstlight::align {

struct RecordOptions {
  bool operators = false;      // every operator's result, not the layers' alone
  std::set<std::string> full;  // taps whose rows are all kept; "all"
  int64_t greedy = 1;          // tokens of the continuation; each but the first is one more run
  RunOptions run;
  const ExpertValues* experts = nullptr;  // of the graph: values inside experts too; wants `operators`
  const ir::Graph* run_instead =
      nullptr;  // has the same values (those of `experts` too) and rounds some of them (rounding.h)
};

struct Recording {
  Pack pack;
  int64_t limit = 0;  // bytes that it may have on disk
  RunFacts facts;
};

// `head` says what is recorded (origin, model, spec); taps and prompts are filled in. Its weights_hash, parameters and
// spec_hash are computed here where they are empty. Errors: those of run_taps and PackBuilder::create.
Result<Recording> record(const ir::Graph& graph, const Prompts& prompts, Pack head, const RecordOptions& options,
                         const Resources& resources);

// The prompts of `baseline`, with the same rows kept of the same values. `full` of the options is not looked at.
Result<Recording> record_like(const ir::Graph& graph, const Pack& baseline, Pack head, const RecordOptions& options,
                              const Resources& resources);

}  // namespace firstlight::align
