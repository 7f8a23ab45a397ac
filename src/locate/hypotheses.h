// SPDX-License-Identifier: Apache-2.0
// What may be wrong with an operator: each hypothesis changes one node of a graph as the opposite mistake would, so
// that a run of the changed graph tells whether that was it. Which ones there are follows from the operator, its
// attributes, the numbers of the config and the tensors of the checkpoint; kinds and advice stand in one table.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/tensor_file.h"
#include "ir/graph.h"

namespace firstlight::locate {

enum class Cause : uint8_t {
  kConfig,
  kWeight,
  kAccumulation,
  kFormat,
  kPosition,
  kMask,
  kNorm,
  kRouting,
  kState,
  kKernel,
};
std::string_view cause_text(Cause cause);  // "config value wrong or missing"
std::string_view cause_advice(Cause cause);

// Of an operator that no hypothesis heals: the most usual one.
Cause usual_cause(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& routing);

struct Hypothesis {
  Cause cause = Cause::kConfig;
  std::string what;  // "eps 1e-05 instead of 1e-06"
  std::string fix;
  bool of_weights = false;  // of this one node's tensors: not of all that are like it
  int rank = 0;             // among those that heal equally well the lowest is named
  std::string words;        // in the places of the config's keys that it is about, "theta factor"
  std::function<Status(ir::Graph&, ir::NodeId)> apply;
};

// What is known beside the graph.
struct Hints {
  std::vector<std::pair<std::string, double>> config;  // numbers by their place, "rope_scaling.factor"
  const formats::Checkpoint* checkpoint = nullptr;
  std::set<ir::NodeId> routing;  // routing_nodes()
};

// Nodes that decide which experts see a token, and with what weight.
std::set<ir::NodeId> routing_nodes(const ir::Graph& graph);

std::vector<Hypothesis> hypotheses(const ir::Graph& graph, ir::NodeId id, const Hints& hints);

// A number of the node that may be a wrong one, whichever is right: `with` gives the hypothesis of another, as a factor
// of what it is.
struct Dial {
  double now = 0;
  std::string name;
  std::function<Hypothesis(double factor)> with;
};
std::vector<Dial> dials(const ir::Graph& graph, ir::NodeId id, const Hints& hints);

// A factor that the result of `maker` lacks, with the config's number it comes from where one fits.
Hypothesis missing_factor(double factor, const Hints& hints, const ir::Graph& graph, ir::NodeId maker);

// What of the config it is about, "rms_norm_eps = 1e-06": keys that hold a number of it, else those with its words,
// else what its numbers are computed from.
std::vector<std::string> concerned_keys(const Hypothesis& hypothesis, const Hints& hints);
// The tensors that the node reads, at most four.
std::vector<std::string> concerned_tensors(const ir::Graph& graph, ir::NodeId id);

// The config's key of that number, or of one it is computed from; empty: none.
std::string config_name(double value, const Hints& hints);

}  // namespace firstlight::locate
