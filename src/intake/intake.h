// SPDX-License-Identifier: Apache-2.0
// From files to a verified graph: finds the spec that fits a checkpoint, runs it in the sandbox, and proves that every
// config key and every tensor arrived in the graph or was waived with a reason. Links no device; a trace needs headers
// only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"
#include "intake/config_tree.h"
#include "intake/coverage.h"
#include "ir/graph.h"
#include "tensor/dtype.h"

namespace firstlight::intake {

struct IntakeOptions {
  std::string spec_file;                   // run this spec instead of the one that matches
  std::string architectures_dir;           // read specs and std/ from here instead of the embedded ones
  std::vector<std::string> allow_unbound;  // config keys and tensors that may stay unbound
  bool probe_config = true;  // prove by re-tracing that each key reaches the graph; false: touched is enough
  int probe_threads = 2;
  bool predict = false;             // also the head that guesses further tokens (multi-token prediction)
  bool vendor_activations = false;  // round activations as the checkpoint's quantisation says (docs/numerics.md)
  int64_t step_limit = 60'000'000;  // virtual machine instructions a spec may run
  int64_t memory_limit_bytes = int64_t{256} << 20;  // what a spec may allocate
};

// Ids that end an answer, and where each was found ("config.json", "generation_config.json", "GGUF").
struct TokenFacts {
  std::optional<int64_t> bos;
  std::optional<int64_t> pad;
  std::map<int64_t, std::string> eos;  // the union over all files, each with its source
};

struct Model {
  ir::Graph graph;  // verified, without dead code; weight_sources name the checkpoint's tensors
  std::optional<ir::Graph>
      predictor;  // with IntakeOptions::predict: inputs and outputs as docs/add_a_model.md has them
  CoverageReport coverage;
  std::string architecture;  // the model_type as the spec matched it
  std::string spec;          // path of the spec: "architectures/llama.lua"
  std::string quantisation;  // "", "fp8 e4m3, blocks of 128 x 128", "mxfp4"
  TokenFacts tokens;
  std::optional<int64_t> max_positions;
  std::map<std::string, std::string> waived_copies;  // waived tensor to the tensor it should be a copy of
  std::vector<std::string> warnings;
};

// What a checkpoint says about itself beyond its tensors. JSON texts; empty: absent.
struct ModelDescription {
  std::string config;                       // config.json; for GGUF files left empty
  std::string generation_config;            // generation_config.json
  std::string quantisation;                 // hf_quant_config.json, where config.json says nothing about quantisation
  std::string config_name = "config.json";  // for messages
};

// A tensor of a checkpoint that is not here: a dry run from headers or from a list.
struct TensorHeader {
  std::string name;
  std::optional<tensor::DType> dtype;
  std::vector<int64_t> shape;
};

// The model of a checkpoint; config.json and its neighbours are read from the directory its files lie in (GGUF: from
// its metadata). Errors: kUnsupported (no spec for this model_type, a quantisation or variant nothing here computes),
// kInvalidData (unknown config keys, unbound or missing tensors: all listed; wrong shapes; a spec's own error, with
// file and line).
Result<Model> load_model(const formats::Checkpoint& checkpoint, const IntakeOptions& options = {});

// The model_type that gguf.lua makes of a GGUF's architecture. Errors: as load_model's; kInvalidArgument for other
// files.
Result<std::string> gguf_model_type(const formats::Checkpoint& checkpoint, const IntakeOptions& options = {});

// load_model from a description alone. `tensors` null: every tensor the spec asks for is taken to exist as asked, in
// BF16; else the list is complete.
Result<Model> trace_model(const ModelDescription& description, const std::vector<TensorHeader>* tensors,
                          const IntakeOptions& options = {});

// A GGUF as the checkpoint it was made from has it.
struct ReleasedForm {
  Model model;        // as load_model gives it
  ConfigNode config;  // its metadata as a config.json says it, with model_type and architectures
  // Outputs: the tensors by their released names. One with "{}" in its name holds several, one per index of the leading
  // axis. An output that is a weight itself is stored as it is; the others undo what the file's writer changed.
  ir::Graph weights;
};
// Errors: those of load_model; kInvalidArgument for a checkpoint that is no GGUF.
Result<ReleasedForm> released_form(const formats::Checkpoint& checkpoint, const IntakeOptions& options = {});

// All shipped specs: path and model types. Errors as a spec's.
struct SpecInfo {
  std::string path;
  std::vector<std::string> model_types;
};
Result<std::vector<SpecInfo>> list_specs(const IntakeOptions& options = {});

}  // namespace firstlight::intake
