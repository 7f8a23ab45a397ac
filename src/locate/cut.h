// SPDX-License-Identifier: Apache-2.0
// One value's operators alone: cut out of a graph behind values that are known, and run with their rows. What tells an
// own error from an inherited one, what hypotheses are tried on, and what a minimal reproduction consists of.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "locate/recordings.h"

namespace firstlight::locate {

// All rows of a value, as bytes of its type, per prompt.
using RowTable = std::vector<std::vector<std::byte>>;
using KnownRows = std::map<ir::ValueId, RowTable>;

// Nodes of the body that `value` needs beside values in `known` (itself not counted as known), in order. `read` gets
// those of `known` that they use.
std::vector<ir::NodeId> nodes_behind(const ir::Graph& graph, ir::ValueId value, const std::set<ir::ValueId>& known,
                                     std::set<ir::ValueId>* read);

// A graph of these nodes alone: the known values are its inputs, called cut_input_name(), `target` is its one output.
// Errors: those of the verifier.
Result<ir::Graph> cut_out(const ir::Graph& graph, const Tap& target, const std::set<ir::ValueId>& known);
std::string cut_input_name(ir::ValueId value);

// The rows of `taps`, whole.
Result<std::map<ir::ValueId, RowTable>> whole_rows(const ir::Graph& graph, const std::vector<Tap>& taps,
                                                   const Prompts& prompts, const RunOptions& options,
                                                   const Resources& resources);

// Runs what cut_out() made. The result has the target alone, kept as `baseline` keeps it.
Result<Pack> run_cut(const ir::Graph& cut, const Tap& target, const KnownRows& known, const Pack& baseline,
                     const RunOptions& options, const Resources& resources);

// The same, all its rows; prompts may be the beginnings of those that `known` has rows of.
Result<RowTable> run_cut_rows(const ir::Graph& cut, const Tap& target, const KnownRows& known, const Prompts& prompts,
                              const RunOptions& options, const Resources& resources);

// A pack of one value, for comparing with it; empty where there is none of that name.
Pack only_tap(const Pack& pack, const std::string& name);

// The rows of a value where the pack has them all, in its type; empty: it has not.
RowTable whole_rows_of(const Pack& pack, const Tap& tap);

}  // namespace firstlight::locate
