// SPDX-License-Identifier: Apache-2.0
// What a graph does with the checkpoint's matrices, as far as storing them in fewer bits is concerned.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace firstlight::adapt {

struct TensorUse {
  std::string why_kept;         // "" of a matrix that only products take
  bool inputs_in_rows = false;  // each matrix is transposed before it is multiplied with
};

// By the checkpoint's names. An embedding, what makes the logits or is read by top_k, and whatever is no weight of a
// product has a reason to stay; stacks of experts are followed into the region that runs them.
std::map<std::string, TensorUse, std::less<>> tensor_uses(const ir::Graph& graph);

}  // namespace firstlight::adapt
