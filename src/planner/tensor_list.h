// SPDX-License-Identifier: Apache-2.0
// A list of tensors that stands for weight files nobody has here: names as patterns, shapes and types. JSON:
// {"tensors": [{"name": "model.layers.{L}.mlp.experts.{E}.w1", "shape": [4, 8], "dtype": "BF16", "L": "0-5", "E":
// "0-3,6-8:2"}], …}; {L} and {E} run over the numbers of "a", "a-b" and "a-b:step", both ends included.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "intake/intake.h"

namespace firstlight::planner {

struct TensorList {
  std::vector<intake::TensorHeader> tensors;
  int64_t elements = 0;  // of all tensors, in their stored types
  int64_t bytes = 0;
};

// Totals that the list states itself (tensor_count, element_count, total_bytes) are checked. Errors: kInvalidData
// naming the entry, what was found and what was wanted; kUnsupported for a type that nobody stores.
Result<TensorList> parse_tensor_list(std::string_view json);

}  // namespace firstlight::planner
