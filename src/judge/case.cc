// SPDX-License-Identifier: Apache-2.0
#include "judge/case.h"

#include <cstring>

#include "base/check.h"
#include "tensor/codec.h"

namespace firstlight::judge {

using ops::OpKind;
using tensor::DType;

std::vector<double> Tensor::values() const {
  if (type.is_state()) return {};
  const auto count = static_cast<size_t>(tensor::num_elements(type.shape));
  std::vector<double> out(count);
  if (type.dtype == DType::kI32) {
    for (size_t i = 0; i < count; ++i) {
      int32_t value = 0;
      std::memcpy(&value, data.data() + 4 * i, 4);
      out[i] = value;
    }
    return out;
  }
  std::vector<float> floats(count);
  FL_CHECK(tensor::decode_to_f32(type.dtype, data, floats).ok());
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<double>(floats[i]);
  return out;
}

bool is_product(OpKind op) {
  return op == OpKind::kLinear || op == OpKind::kBatchedLinear || op == OpKind::kFusedLinear;
}

bool is_recurrence(OpKind op) {
  switch (op) {
    case OpKind::kRecurGla:
    case OpKind::kRecurDelta:
    case OpKind::kRecurSelective:
    case OpKind::kRecurElementwise:
    case OpKind::kRecurDplr:
    case OpKind::kConv1d:
    case OpKind::kShift:
      return true;
    default:
      return false;
  }
}

}  // namespace firstlight::judge
