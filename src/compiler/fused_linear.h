// SPDX-License-Identifier: Apache-2.0
// A fused_linear node taken apart and put together: operands by role instead of by place. Passes edit this form.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace firstlight::compiler {

struct FusedLinear {
  ir::ValueId x = -1;
  bool norm = false;
  double norm_eps = 0;
  double norm_offset = 0;
  std::optional<ir::ValueId> norm_weight;
  std::vector<ir::ValueId> weights;
  std::vector<std::optional<ir::ValueId>> biases;  // one entry per weight
  std::vector<ir::ValueId> extras;
  std::vector<ops::Expression> epilogue;  // over products, then extras; empty: the products themselves
  std::string compute;                    // "auto" or a compute mode's name
};

FusedLinear take_apart(const ir::Node& node);
std::vector<ir::ValueId> operands_of(const FusedLinear& fused);
ops::Attributes attributes_of(const FusedLinear& fused);

}  // namespace firstlight::compiler
