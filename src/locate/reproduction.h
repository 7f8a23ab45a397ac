// SPDX-License-Identifier: Apache-2.0
// The smallest thing that shows a fault, as a folder that runs by itself: operators between known values, with their
// rows, the tensors they read where those are small, and what should come out.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "locate/cut.h"

namespace firstlight::locate {

struct Reproduction {
  ir::Graph graph;  // what cut_out() made; its one output is the value
  KnownRows rows;   // by cut_input_name()
  Pack expected;    // of the one value, with the prompts
  double allowed = 0;
};

// graph.txt; model.safetensors with the rows of each input (prompt p: "p<p>.<input>") and, where they have no more than
// 16 MB, the tensors of `checkpoint` that the graph reads; expected, a golden pack; finding.json with `finding` and the
// bound. Whether the tensors are there. Errors: kUnavailable.
Result<bool> write_reproduction(const Reproduction& reproduction, const Json& finding,
                                const formats::Checkpoint* checkpoint, const std::string& directory);

// Errors: kNotFound, kInvalidData.
Result<Reproduction> read_reproduction(const std::string& directory);

struct Reproduced {
  double error = 0, allowed = 0;
  bool wrong() const { return !(error <= allowed); }
};
// Errors: those of compiling and running the cut.
Result<Reproduced> reproduce(const Reproduction& reproduction, const RunOptions& run, const Resources& resources);

}  // namespace firstlight::locate
