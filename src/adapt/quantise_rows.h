// SPDX-License-Identifier: Apache-2.0
// A few rows of a matrix as codes and scales of a vendor's format, and what their values are. No files, no names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adapt/quant_policy.h"
#include "tensor/dtype.h"

namespace firstlight::adapt {

// How one matrix is stored.
struct RowFormat {
  QuantFormat format = QuantFormat::kInt8;
  int64_t columns = 0;
  int64_t group = 0;  // columns that share a scale

  int bits() const { return format == QuantFormat::kInt4 || format == QuantFormat::kMxfp4 ? 4 : 8; }
  int64_t groups() const { return (columns + group - 1) / group; }
  int64_t rows_per_block() const { return format == QuantFormat::kFp8 ? 128 : 1; }  // that share their scales
  tensor::DType code_type() const;
  int64_t code_columns() const;  // elements of that type in a row
  tensor::DType scale_type() const;
};

struct QuantisedRows {
  std::vector<std::byte> codes, scales;
  std::vector<float> values;  // what a reader makes of them
};

// `rows` holds whole rows, whole blocks of them but for the last. All values must be finite.
QuantisedRows quantise_rows(const RowFormat& format, std::span<const float> rows);

}  // namespace firstlight::adapt
