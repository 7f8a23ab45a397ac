// SPDX-License-Identifier: Apache-2.0
// From a failing comparison to the first wrong operator, the kind of its fault and what to change. The model first: our
// reference runs the same graph; where it does not agree with the baseline, the first operator whose own operands do is
// the suspect, hypotheses are tried on it alone, and the one that heals it is applied before the next fault is looked
// for. Then the backend, against our reference on the same graph: switches tell what it is. docs/locate.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "locate/hypotheses.h"
#include "locate/reproduction.h"

namespace firstlight::locate {

struct Finding {
  bool of_backend = false;
  std::string op;
  std::string scope;                // of the operator
  std::string layer;                // the first one
  std::vector<std::string> layers;  // all that have it
  std::string value;                // what was seen to be wrong
  double error = 0;                 // own error: with operands that agree
  double allowed = 0;
  Cause cause = Cause::kConfig;
  bool is_guess = true;  // no hypothesis healed it
  std::string what, fix;
  std::string made_at;                // lines of the spec, inner one first
  std::string kernel, shape;          // of a backend: symbol and operands; where it is wrong
  std::vector<std::string> concerns;  // keys of the config with their values, tensors
  double healed = 0;                  // error under the hypothesis
  bool of_layer = false;   // the baseline does not tell which operator of the layer; named by the hypothesis alone
  int64_t hypotheses = 0;  // tried
  std::optional<Reproduction> reproduction;
};

struct Location {
  bool passed = true;   // nothing is wrong
  bool healed = false;  // with the findings' changes all agrees
  std::vector<Finding> findings;
  std::vector<std::string> notes;
};

struct LocateOptions {
  RunOptions run;
  Hints hints;
  Resources reference;
  const Resources* backend = nullptr;  // null: the reference is what is looked at
  // The reference with the backend's rounding; null: bounded by numbers instead (docs/golden_pack.md).
  const ir::Graph* rounded = nullptr;
  const Resources* rounded_resources = nullptr;
  bool exact = false;  // the backend's own rounding counts as a fault
  int64_t most_findings = 4;
  std::function<void(const std::string&)> progress = {};
};

// `head` as for record_like. Errors: those of recording and comparing.
Result<Location> locate(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options);

// The second half: `backend` against the reference on the same graph.
Status locate_in_backend(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options,
                         Location& location);

Json location_json(const Location& location);
std::string location_text(const Location& location);
// The first finding's reproduction, or its words alone where there is none. `command` gets `--model MODEL` behind it
// where the tensors are too large to lie beside. Errors: kInvalidArgument (disk).
Status write_finding(const Finding& finding, const std::string& command, const std::string& model,
                     const formats::Checkpoint* checkpoint, const std::string& directory);

}  // namespace firstlight::locate
