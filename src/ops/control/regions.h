// SPDX-License-Identifier: Apache-2.0
// Parameter types of the regions of control-flow operators, one function per operator with regions.
#pragma once

#include "ops/op.h"

namespace firstlight::ops {

Result<std::vector<tensor::Type>> per_expert_parameters(std::span<const tensor::Type> operands,
                                                        const Attributes& attributes);
Result<std::vector<tensor::Type>> if_parameters(std::span<const tensor::Type> operands);
Result<std::vector<tensor::Type>> repeat_parameters(std::span<const tensor::Type> operands);

}  // namespace firstlight::ops
