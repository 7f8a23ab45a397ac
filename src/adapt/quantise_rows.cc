// SPDX-License-Identifier: Apache-2.0
#include "adapt/quantise_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

using tensor::DType;

// The values of a small float's codes 0, 1, 2, … up to its largest, which rise.
template <size_t kCount>
std::array<float, kCount> rising(float (*decode)(uint8_t)) {
  std::array<float, kCount> values{};
  for (size_t i = 0; i < kCount; ++i) values[i] = decode(static_cast<uint8_t>(i));
  return values;
}

// The code of the nearest value, ties to the even code; beyond the largest, the largest.
template <size_t kCount>
uint8_t nearest(const std::array<float, kCount>& values, float value) {
  const float size = std::abs(value);
  const auto above = static_cast<size_t>(std::lower_bound(values.begin(), values.end(), size) - values.begin());
  if (above == kCount) return kCount - 1;
  if (above == 0) return 0;
  const float up = values[above] - size, down = size - values[above - 1];
  const size_t code = up < down || (up == down && above % 2 == 0) ? above : above - 1;
  return static_cast<uint8_t>(code);
}

const std::array<float, 127>& e4m3_values() {
  static const auto values = rising<127>(&tensor::f8e4m3_to_f32);
  return values;
}

const std::array<float, 8>& e2m1_values() {
  static const auto values = rising<8>(&tensor::f4e2m1_to_f32);
  return values;
}

void put(std::vector<std::byte>& bytes, size_t at, auto value) {
  std::memcpy(bytes.data() + at * sizeof(value), &value, sizeof(value));
}

class Rounder {
 public:
  Rounder(const RowFormat& format, std::span<const float> rows)
      : format_(format), in_(rows), rows_(static_cast<int64_t>(rows.size()) / format.columns) {
    const int64_t blocks = (rows_ + format.rows_per_block() - 1) / format.rows_per_block();
    out_.codes.resize(static_cast<size_t>(rows_ * *tensor::row_bytes(format.code_type(), format.code_columns())));
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
        const uint8_t code = nearest(e4m3_values(), value);
        put(out_.codes, index(row, c), static_cast<uint8_t>(code | (negative ? 0x80 : 0)));
        seen = (negative ? -1.0F : 1.0F) * e4m3_values()[code] * scale;
      } else if (format_.format == QuantFormat::kMxfp4) {
        const uint8_t code = nearest(e2m1_values(), value);
        or_bits(row, c, 8, static_cast<uint32_t>(code | (negative ? 8 : 0)));
        seen = (negative ? -1.0F : 1.0F) * e2m1_values()[code] * scale;
      } else {
        const int half = 1 << (format_.bits() - 1);
        const float q = std::clamp(std::nearbyint(value), static_cast<float>(-half), static_cast<float>(half - 1));
        or_bits(row, c, 32, static_cast<uint32_t>(static_cast<int>(q) + half));
        seen = q * scale;
      }
    }
  }

  // Adds a code to a word of `word` bits, the first column lowest.
  void or_bits(int64_t row, int64_t column, int word, uint32_t code) {
    const int per_word = word / format_.bits();
    const auto at = static_cast<size_t>(row * format_.code_columns() + column / per_word);
    const auto bits = code << (column % per_word * format_.bits());
    for (int byte = 0; byte < word / 8; ++byte) {
      out_.codes[at * static_cast<size_t>(word / 8) + static_cast<size_t>(byte)] |=
          static_cast<std::byte>(bits >> (8 * byte) & 0xff);
    }
  }

  const RowFormat& format_;
  std::span<const float> in_;
  int64_t rows_;
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
