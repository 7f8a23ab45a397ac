// SPDX-License-Identifier: Apache-2.0
#include "tensor/type.h"

#include "base/check.h"

namespace firstlight::tensor {

std::string Type::to_string() const {
  if (is_state()) return "state";
  std::string text = std::string(dtype_name(dtype)) + shape_to_string(shape);
  if (layout == Layout::kPackedRows) text += " packed";
  return text;
}

int64_t size_bytes(const Type& type, const SymbolValues& values) {
  FL_CHECK(!type.is_state() && type.layout == Layout::kRowMajor);
  int64_t rows = 1;
  const size_t rank = type.shape.size();
  for (size_t i = 0; i + 1 < rank; ++i) FL_CHECK(!__builtin_mul_overflow(rows, type.shape[i].at(values), &rows));
  const auto row = row_bytes(type.dtype, rank == 0 ? 1 : type.shape[rank - 1].at(values));
  FL_CHECK(row.has_value());
  int64_t bytes = 0;
  FL_CHECK(!__builtin_mul_overflow(rows, *row, &bytes));
  return bytes;
}

}  // namespace firstlight::tensor
