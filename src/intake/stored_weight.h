// SPDX-License-Identifier: Apache-2.0
// The parts in which a checkpoint stores a quantised weight, found by the vendors' names beside the name of the weight,
// and held against the config and against each other.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "intake/quantisation.h"
#include "intake/tensor_table.h"
#include "ops/attributes.h"

namespace firstlight::intake {

struct StoredPart {
  std::string name;
  TensorInfo info;
};

struct StoredWeight {
  ops::Attributes attributes;                               // of assemble_weight
  std::vector<StoredPart> parts;                            // its operands in order
  std::vector<int64_t> shape;                               // of the weight
  std::vector<std::pair<std::string, std::string>> waived;  // companions without a say here, and why
  const WeightScheme* scheme = nullptr;
  std::optional<StoredPart> activation_scale;  // of static activations
  bool activation_scale_divides = false;
};

// Nothing when the weight is stored plainly, or not at all. `wanted`: the shape the spec asks for, if it says one.
// Errors: kInvalidData (parts that are missing or disagree; a weight that the config says is left alone), kUnsupported.
Result<std::optional<StoredWeight>> find_stored_weight(const TensorTable& tensors, const Quantisation& quantisation,
                                                       const std::string& name,
                                                       const std::optional<std::vector<int64_t>>& wanted);

// Whether there is anything under which the weight may be stored.
bool is_stored(const TensorTable& tensors, const std::string& name);

}  // namespace firstlight::intake
