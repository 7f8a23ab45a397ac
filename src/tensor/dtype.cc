// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>
#include <limits>

namespace firstlight::tensor {
namespace {

constexpr std::array kInfos = {
    DTypeInfo{"bool", 1, 1, false, true, false},     DTypeInfo{"i8", 1, 1, false, true, false},
    DTypeInfo{"u8", 1, 1, false, true, false},       DTypeInfo{"i16", 1, 2, false, true, false},
    DTypeInfo{"u16", 1, 2, false, true, false},      DTypeInfo{"i32", 1, 4, false, true, false},
    DTypeInfo{"u32", 1, 4, false, true, false},      DTypeInfo{"i64", 1, 8, false, true, false},
    DTypeInfo{"u64", 1, 8, false, true, false},      DTypeInfo{"f64", 1, 8, true, false, false},
    DTypeInfo{"f32", 1, 4, true, false, false},      DTypeInfo{"f16", 1, 2, true, false, false},
    DTypeInfo{"bf16", 1, 2, true, false, false},     DTypeInfo{"f8e4m3", 1, 1, true, false, false},
    DTypeInfo{"f8e5m2", 1, 1, true, false, false},   DTypeInfo{"f8e8m0", 1, 1, true, false, false},
    DTypeInfo{"f4e2m1", 2, 1, true, false, false},   DTypeInfo{"q8_0", 32, 34, false, false, true},
    DTypeInfo{"q4_0", 32, 18, false, false, true},   DTypeInfo{"q4_1", 32, 20, false, false, true},
    DTypeInfo{"q5_0", 32, 22, false, false, true},   DTypeInfo{"q5_1", 32, 24, false, false, true},
    DTypeInfo{"q4_k", 256, 144, false, false, true}, DTypeInfo{"q5_k", 256, 176, false, false, true},
    DTypeInfo{"q6_k", 256, 210, false, false, true}, DTypeInfo{"mxfp4", 32, 17, false, false, true},
    DTypeInfo{"int4g", 32, 21, false, false, true},  DTypeInfo{"int8g", 32, 37, false, false, true},
    DTypeInfo{"fp8g", 32, 36, false, false, true},   DTypeInfo{"nvfp4", 64, 40, false, false, true},
    DTypeInfo{"mxfp8", 32, 33, false, false, true},  DTypeInfo{"q4_1s", 32, 24, false, false, true},
};
static_assert(kInfos.size() == static_cast<size_t>(DType::kQ4_1S) + 1);

}  // namespace

const DTypeInfo& dtype_info(DType type) { return kInfos[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<int64_t> row_bytes(DType type, int64_t elements) {
  const DTypeInfo& info = dtype_info(type);
  if (elements < 0 || elements % info.block_elements != 0) return std::nullopt;
  const int64_t blocks = elements / info.block_elements;
  if (blocks > std::numeric_limits<int64_t>::max() / info.block_bytes) return std::nullopt;
  return blocks * info.block_bytes;
}

}  // namespace firstlight::tensor
