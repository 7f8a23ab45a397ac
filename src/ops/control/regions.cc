// SPDX-License-Identifier: Apache-2.0
#include "ops/control/regions.h"

namespace firstlight::ops {

Result<std::vector<tensor::Type>> region_parameters(OpKind kind, int region_idx, std::span<const tensor::Type> operands,
                                                    const Attributes& attributes) {
  const OpDef& def = op_def(kind);
  if (region_idx < 0 || region_idx >= def.num_regions) {
    return invalid_argument(std::string(def.name) + ": region " + std::to_string(region_idx) + " is not one of its " +
                            std::to_string(def.num_regions) + " regions");
  }
  FL_TRY(check_operands(def, operands));
  if (kind == OpKind::kPerExpert) return per_expert_parameters(operands, attributes);
  if (kind == OpKind::kIf) return if_parameters(operands);
  return repeat_parameters(operands);
}

}  // namespace firstlight::ops
