// SPDX-License-Identifier: Apache-2.0
// Hypotheses tried on a suspect: the value's operators run alone, changed, and the result is held against the baseline.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "locate/locate.h"

namespace firstlight::locate {

struct Measured {
  double error = 0, allowed = 0;
  Pack pack;                                        // of the one value
  bool agrees() const { return error <= allowed; }  // false for NaN
};

// A value that is wrong by itself.
struct Suspect {
  Tap tap;
  std::set<ir::ValueId> known;  // values whose rows are at hand
  KnownRows rows;               // those of them that are read
  std::vector<ir::NodeId> region;
  Pack baseline;  // of the one value
  Measured measured;
};

// Runs the suspect's operators as `graph` has them. Errors: those of cutting, compiling and running.
Status measure(const ir::Graph& graph, const Suspect& suspect, const Pack& baseline, const LocateOptions& options,
               Measured& out);

// One hypothesis on some nodes.
struct Trial {
  Hypothesis hypothesis;
  std::vector<ir::NodeId> nodes;
  double error = INFINITY;
  bool heals = false;
};
Status apply(const Trial& trial, ir::Graph& graph);

// Equal for nodes that a spec makes by the same line; with `by_attributes`: by the same number of the config.
std::string kin(const ir::Graph& graph, ir::NodeId id, bool by_attributes = false);
std::string without_digits(std::string text);

// Share of the rows kept whole that agree; 1 where there are none.
double rows_that_agree(const Pack& baseline, const Pack& tested);

class Trials {
 public:
  // Not owned; all of it must outlive this.
  Trials(const ir::Graph& graph, const Suspect& suspect, const Pack& baseline, const LocateOptions& options);

  // What heals: one hypothesis, else a number found by search, else two hypotheses at once; else nothing.
  std::vector<Trial> best();
  int64_t tried() const { return tried_; }
  const std::optional<Trial>& nearest() const { return nearest_; }

 private:
  void add_nodes(ir::NodeId id, std::vector<ir::NodeId>& out) const;
  std::map<std::string, std::vector<ir::NodeId>> kin_of_region() const;
  std::vector<Trial> all() const;
  void try_out(Trial& trial);
  std::optional<Trial> best_number();
  static std::optional<Trial> minimum(const std::function<Trial(double)>& at, double own);
  std::vector<Trial> best_pair(std::vector<Trial>& trials);

  const ir::Graph& graph_;
  const Suspect& suspect_;
  const Pack& baseline_;
  const LocateOptions& options_;
  Hints hints_;
  std::vector<ir::NodeId> nodes_;  // of the suspect's region, inner ones too
  int64_t tried_ = 0;
  std::optional<Trial> nearest_;
};

}  // namespace firstlight::locate
