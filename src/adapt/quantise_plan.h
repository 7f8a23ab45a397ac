// SPDX-License-Identifier: Apache-2.0
// What becomes of each tensor of a checkpoint that is stored in fewer bits: which may be (as the graph uses them), in
// which parts, and the quantization_config that says so. Reads names and shapes; writes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adapt/quant_policy.h"
#include "adapt/quantise_rows.h"
#include "adapt/tensor_uses.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "formats/tensor_file.h"
#include "intake/intake.h"

namespace firstlight::adapt {

// A checkpoint in floating point, in Hugging Face layout. The config as text, since it is changed.
struct QuantSource {
  std::string path;
  formats::Checkpoint checkpoint;
  formats::HfDirectory files;
  std::string config;
  intake::IntakeOptions intake;
  intake::Model model;
};
// Errors: those of intake; kInvalidArgument (a GGUF), kUnsupported (quantised already).
Result<QuantSource> open_quant_source(const std::string& path, const intake::IntakeOptions& intake);

// "x" of "x.weight"; any other name as it is.
std::string module_of(const std::string& tensor);

// One tensor's way into the new checkpoint.
struct QuantJob {
  const formats::TensorRecord* record = nullptr;
  std::optional<QuantChoice> choice;  // none: as it is
  std::string kept_because;
  RowFormat format;             // of one with a choice
  bool inputs_in_rows = false;  // its graph takes each matrix transposed: scales go along the outputs
  bool gpt_oss_blocks = false;  // stored transposed, as gpt-oss names its MXFP4
  bool is_stack = false;        // matrices that products take, one per expert
  bool mixed = false;           // beside formats that are not its own: in the words of compressed-tensors

  int64_t num_matrices() const;  // product of the axes before the last two
  int64_t rows() const;          // of one matrix, as it is stored
  std::string codes_name() const;
  std::string scales_name() const;
  std::string shape_name() const;  // "" where none is stored
  std::vector<formats::TensorPlan> parts() const;
  int64_t bytes_after() const;   // of all parts
  std::string describe() const;  // "int4, groups of 128"
};

class QuantPlanner {
 public:
  explicit QuantPlanner(const QuantSource& source);  // which must outlive it and its jobs

  const QuantSource& source() const { return *source_; }

  // Why the tensor can not be stored so; "" of one that can. Errors: kUnsupported for one that is quantised already.
  Result<std::string> obstacle(const formats::TensorRecord& record, const QuantChoice& choice) const;

  int64_t bytes_of(const formats::TensorRecord& record, const QuantChoice& choice) const;  // of one that can

  // A job per tensor, in the order of names. Errors: kInvalidArgument for a rule that names no module, or one by its
  // whole name that can not be stored so, and where nothing is left to do.
  Result<std::vector<QuantJob>> plan(const QuantPolicy& policy) const;

  // config.json of the new checkpoint.
  Result<std::string> config_text(const std::vector<QuantJob>& jobs) const;

  // The model of the new checkpoint, from names and shapes alone: whether it loads. Errors: as trace_model.
  Result<intake::Model> trace(const std::vector<QuantJob>& jobs) const;

 private:
  QuantJob job_of(const formats::TensorRecord& record, const QuantChoice& choice) const;
  // `rules`: places of those that name the tensor, in order.
  Result<QuantJob> decide(const formats::TensorRecord& record, const QuantPolicy& policy,
                          const std::vector<size_t>& rules) const;
  bool is_stack(const formats::TensorRecord& record) const;
  void try_gpt_oss_blocks(std::vector<QuantJob>& jobs) const;

  const QuantSource* source_;
  std::map<std::string, TensorUse, std::less<>> uses_;  // by the checkpoint's names
};

}  // namespace firstlight::adapt
