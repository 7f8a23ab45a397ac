// SPDX-License-Identifier: Apache-2.0
// One run of a spec over one config: finds the spec that matches, runs its parameters, state and forward functions in a
// sandbox, and returns the graph with the record of what was read. Pure: the same input gives the same graph.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "intake/config_tree.h"
#include "intake/quantisation.h"
#include "intake/spec_store.h"
#include "intake/tensor_table.h"
#include "intake/trace_record.h"
#include "ir/graph.h"

namespace firstlight::intake {

// Nothing here is owned; all of it must outlive the trace, and may be shared by traces on several threads.
struct TraceInput {
  const SpecStore* specs = nullptr;
  const TensorTable* tensors = nullptr;
  const Quantisation* quantisation = nullptr;
  bool gguf = false;  // the config is a GGUF's metadata, the tensors have its names
  // With gguf: the outputs are the weights that the spec asked for, under the names and in the shapes of released
  // checkpoints (a "{}" in a name: one tensor per index of the leading axis), in place of the logits.
  bool released = false;
  // The values of a small float tensor, for the few that are parameters of the graph; empty: data is not at hand.
  std::function<Result<std::vector<double>>(const std::string& name)> read_floats;
  SandboxLimits limits;
  // The spec's `predict` in place of the model itself: the head that guesses further tokens from its hidden states.
  bool predict = false;
  bool record_visits = false;  // fill Trace::jumps
  bool probing = false;        // for comparing fingerprints of two such traces only; see Tracer::probing
};

struct Trace {
  ir::Graph graph;             // without dead code, not yet verified
  ConfigNode released_config;  // with gguf: its metadata in Hugging Face's words
  ConfigRecord config;
  std::map<std::string, std::string> waived_tensors;
  std::map<std::string, std::string> waived_copies;  // waived tensor to the tensor it should be a copy of
  std::vector<LayerWaiver> waived_layers;
  std::vector<std::string> missing_tensors;
  std::vector<std::string> warnings;
  std::string architecture;  // model_type
  std::string spec;
  int64_t steps = 0;
  std::set<std::string> jumps;  // "architectures/llama.lua:31>32": which line of a function followed which
};

// Errors: as load_model's, but coverage is not judged here.
Result<Trace> run_trace(const TraceInput& input, const ConfigNode& config);

// config.model_type, of a GGUF as gguf.lua derives it. Errors: as run_trace's.
Result<std::string> find_model_type(const TraceInput& input, const ConfigNode& config);

// The model types each spec says it matches, by path.
Result<std::map<std::string, std::vector<std::string>>> matched_types(const SpecStore& specs,
                                                                      const SandboxLimits& limits);

}  // namespace firstlight::intake
