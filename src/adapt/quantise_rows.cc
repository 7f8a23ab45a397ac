// SPDX-License-Identifier: Apache-2.0
#include "adapt/quantise_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

using tensor::DType;

// A float of few bits: codes rise with values, and the least exponent has the subnormal ones as well.
struct SmallFloat {
  int least_exponent, mantissa_bits, last_code;
};
constexpr SmallFloat kE4M3 = {-6, 3, 0x7e}, kE2M1 = {0, 1, 7};

struct Rounded {
  uint8_t code;
  float value;
};

// The nearest one of a size, ties to the even code; beyond the largest, the largest. `largest`: its value.
Rounded nearest(const SmallFloat& kind, float size, float largest) {
  if (size >= largest) return {static_cast<uint8_t>(kind.last_code), largest};
  const int stored = static_cast<int>(std::bit_cast<uint32_t>(size) >> 23) - 127;
  const int exponent = std::max(stored, kind.least_exponent);
  const auto power = [](int e) { return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); };
  const float steps = std::nearbyint(size * power(kind.mantissa_bits - exponent));
  const int code = ((exponent - kind.least_exponent) << kind.mantissa_bits) + static_cast<int>(steps);
  return {static_cast<uint8_t>(code), steps * power(exponent - kind.mantissa_bits)};
}

void put(std::vector<std::byte>& bytes, size_t at, auto value) {
  std::memcpy(bytes.data() + at * sizeof(value), &value, sizeof(value));
}

class Rounder {
 public:
  Rounder(const RowFormat& format, std::span<const float> rows)
      : format_(format), in_(rows), rows_(static_cast<int64_t>(rows.size()) / format.columns) {
    row_bytes_ = *tensor::row_bytes(format.code_type(), format.code_columns());
    const int64_t blocks = (rows_ + format.rows_per_block() - 1) / format.rows_per_block();
    out_.codes.resize(static_cast<size_t>(rows_ * row_bytes_));
    out_.scales.resize(static_cast<size_t>(blocks * *tensor::row_bytes(format.scale_type(), format.groups())));
    out_.values.resize(rows.size());
  }

  QuantisedRows run() {
    const int64_t height = format_.rows_per_block();
    for (int64_t row = 0; row < rows_; row += height) {
      for (int64_t group = 0; group < format_.groups(); ++group) {
        const int64_t last = std::min(row + height, rows_);
        const float scale = set_scale(row / height * format_.groups() + group, largest(row, last, group));
        for (int64_t r = row; r < last; ++r) encode(r, group, scale);
      }
    }
    return std::move(out_);
  }

 private:
  int64_t first(int64_t group) const { return group * format_.group; }
  int64_t last(int64_t group) const { return std::min(first(group) + format_.group, format_.columns); }

  float largest(int64_t from, int64_t to, int64_t group) const {
    float most = 0;
    for (int64_t r = from; r < to; ++r) {
      for (int64_t c = first(group); c < last(group); ++c) most = std::max(most, std::abs(in_[index(r, c)]));
    }
    return most;
  }
  size_t index(int64_t row, int64_t column) const { return static_cast<size_t>(row * format_.columns + column); }

  // The scale as it is stored; 1 for a group of zeros.
  float set_scale(int64_t at, float most) {
    const auto place = static_cast<size_t>(at);
    switch (format_.format) {
      case QuantFormat::kInt8:
      case QuantFormat::kInt4: {
        // 2^bits - 1 steps from end to end, as compressed-tensors has it.
        const float wanted = most > 0 ? most / (format_.bits() == 4 ? 7.5F : 127.5F) : 1.0F;
        uint16_t bits = tensor::f32_to_bf16(wanted);
        if (tensor::bf16_to_f32(bits) < wanted)
          ++bits;  // never smaller, or the ends would be cut by more than half a step
        put(out_.scales, place, bits);
        return tensor::bf16_to_f32(bits);
      }
      case QuantFormat::kFp8: {
        float scale = most / 448.0F;
        if (scale == 0) scale = 1.0F;
        put(out_.scales, place, scale);
        return scale;
      }
      case QuantFormat::kMxfp4:
        break;
    }
    // OCP MX v1.0, 6.3: the largest power of two in the group, over that of the largest E2M1.
    const int exponent = most > 0 ? std::clamp(std::ilogb(most) - 2, -127, 127) : 0;
    put(out_.scales, place, static_cast<uint8_t>(exponent + 127));
    return tensor::f8e8m0_to_f32(static_cast<uint8_t>(exponent + 127));
  }

  void encode(int64_t row, int64_t group, float scale) {
    for (int64_t c = first(group); c < last(group); ++c) {
      const float value = in_[index(row, c)] / scale;
      const bool negative = std::signbit(value);
      float& seen = out_.values[index(row, c)];
      if (format_.format == QuantFormat::kFp8) {
        const Rounded found = nearest(kE4M3, std::abs(value), 448);
        add_code(row, c, found.code | (negative ? 0x80U : 0U));
        seen = (negative ? -found.value : found.value) * scale;
      } else if (format_.format == QuantFormat::kMxfp4) {
        const Rounded found = nearest(kE2M1, std::abs(value), 6);
        add_code(row, c, found.code | (negative ? 8U : 0U));
        seen = (negative ? -found.value : found.value) * scale;
      } else {
        const int half = 1 << (format_.bits() - 1);
        const float q = std::clamp(std::nearbyint(value), static_cast<float>(-half), static_cast<float>(half - 1));
        add_code(row, c, static_cast<uint32_t>(static_cast<int>(q) + half));
        seen = q * scale;
      }
    }
  }

  // Words are little-endian with the first column lowest, so a column's bits lie in the byte that counting bits gives.
  void add_code(int64_t row, int64_t column, uint32_t code) {
    const int64_t bit = column * format_.bits();
    out_.codes[static_cast<size_t>(row * row_bytes_ + bit / 8)] |= static_cast<std::byte>(code << bit % 8);
  }

  const RowFormat& format_;
  std::span<const float> in_;
  int64_t rows_;
  int64_t row_bytes_ = 0;
  QuantisedRows out_;
};

}  // namespace

DType RowFormat::code_type() const {
  switch (format) {
    case QuantFormat::kFp8:
      return DType::kF8E4M3;
    case QuantFormat::kMxfp4:
      return DType::kU8;
    default:
      return DType::kI32;
  }
}

int64_t RowFormat::code_columns() const {
  const int64_t per = format == QuantFormat::kFp8 ? 1 : format == QuantFormat::kMxfp4 ? 2 : 32 / bits();
  return (columns + per - 1) / per;
}

DType RowFormat::scale_type() const {
  switch (format) {
    case QuantFormat::kFp8:
      return DType::kF32;
    case QuantFormat::kMxfp4:
      return DType::kU8;
    default:
      return DType::kBF16;
  }
}

QuantisedRows quantise_rows(const RowFormat& format, std::span<const float> rows) {
  return Rounder(format, rows).run();
}

}  // namespace firstlight::adapt
