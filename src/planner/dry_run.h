// SPDX-License-Identifier: Apache-2.0
// What can be known of a model without its weights' bytes: from files that may end behind their headers, from a list of
// tensors, or from a config alone. Whatever could not be known is said.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"
#include "intake/intake.h"

namespace firstlight::planner {

struct DryRunOptions {
  std::string tensors_file;   // stands for the weight files (tensor_list.h); empty: the files themselves
  bool headers_only = false;  // weight files may end behind their headers
  intake::IntakeOptions intake;
};

struct DryRun {
  // Of the checkpoint as stored, parts that the model does not use counted in (further prediction layers, for one).
  int64_t tensors = 0, parameters = 0, bytes = 0;
  // Made up from the spec, every tensor as BF16: nothing says how they are stored.
  bool is_assumed = false;
  std::optional<intake::Model> model;               // absent: `refusal` says why there is no graph
  Status refusal;                                   // of intake
  std::unique_ptr<formats::Checkpoint> checkpoint;  // null: there are no files
  std::vector<std::string> unknown;                 // what the sources do not say, a sentence each
};

// `path` is a directory (with weight files, with the index of absent ones, or with a config alone) or a weight file.
// Errors: those of the files' readers. A model that intake refuses is no error: its totals are known all the same.
Result<DryRun> dry_run(const std::string& path, const DryRunOptions& options);

}  // namespace firstlight::planner
