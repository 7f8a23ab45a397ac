// SPDX-License-Identifier: Apache-2.0
// assemble_weight: reads each row's codes, scales and zeros as its vendor stores them, writes blocks of ours or
// float32. Runs at load only.
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "ops/weights/assemble_weight.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

enum class Codes : uint8_t { kE4M3, kE5M2, kI8, kE2M1, kPacked, kGptq, kAwq };
enum class Zero : uint8_t { kNone, kMiddle, kStored, kStoredMinusOne };

constexpr int kAwqShift[8] = {0, 16, 4, 20, 8, 24, 12, 28};  // of column j of 8 in its word

struct Options final : Prepared {
  Codes codes = Codes::kE4M3;
  Zero zero = Zero::kNone;
  int bits = 8;
  int64_t block_rows = 1;
  int64_t block_columns = 1;
  bool divides = false;
  ops::AssembledOperands places;
  ops::AssembledShape shape;
};

Codes codes_from(const std::string& name) {
  if (name == "e4m3") return Codes::kE4M3;
  if (name == "e5m2") return Codes::kE5M2;
  if (name == "i8") return Codes::kI8;
  if (name == "e2m1") return Codes::kE2M1;
  if (name == "packed") return Codes::kPacked;
  return name == "gptq" ? Codes::kGptq : Codes::kAwq;
}

Zero zero_from(const std::string& name) {
  if (name == "middle") return Zero::kMiddle;
  if (name == "stored") return Zero::kStored;
  return name == "stored_minus_one" ? Zero::kStoredMinusOne : Zero::kNone;
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const ops::Attributes& attributes = input.signature.attributes;
  options->codes = codes_from(attributes.get_string("codes"));
  options->zero = zero_from(attributes.get_string("zero"));
  options->bits = static_cast<int>(attributes.get_int("bits"));
  options->block_rows = attributes.get_ints("block")[0];
  options->block_columns = attributes.get_ints("block")[1];
  options->divides = attributes.get_string("global") == "divides";
  options->places = ops::assembled_operands(attributes);
  options->shape = ops::assembled_shape(input.signature.operands[0], attributes);
  return std::unique_ptr<Prepared>(std::move(options));
}

uint32_t word_at(const std::byte* base, int64_t index) {
  uint32_t word;
  std::memcpy(&word, base + 4 * index, 4);
  return word;
}

// One matrix of the stack: its small parts decoded, its codes read row by row. Codes come out as bytes: unsigned whole
// numbers (an i8 code plus 128), E4M3 or E5M2 codes, E2M1 nibbles.
class Matrix {
 public:
  Matrix(const KernelCall& call, int64_t index)
      : options_(static_cast<const Options&>(*call.prepared)), shape_(options_.shape) {
    const int64_t groups = shape_.scale_rows * shape_.scale_columns;
    codes_ = slice_of(call.inputs[0], index);
    scales_.resize(static_cast<size_t>(groups));
    scale_codes_ = slice_of(call.inputs[1], index);
    const DType stored = call.inputs[1].dtype == DType::kU8 ? DType::kF8E8M0 : call.inputs[1].dtype;
    decode(stored, scale_codes_, scales_);
    if (options_.places.zero >= 0) read_zeros(slice_of(input(call, options_.places.zero), index));
    if (options_.places.global >= 0) {
      const tensor::View& view = input(call, options_.places.global);
      decode(view.dtype, slice_of(view, index), {&global_, 1});
      if (options_.divides) global_ = 1.0f / global_;
    }
    if (options_.places.order >= 0) order_ = slice_of(input(call, options_.places.order), index);
  }

  float scale(int64_t row, int64_t group) const { return scales_[scale_index(row, group)]; }
  std::byte scale_code(int64_t row, int64_t group) const { return scale_codes_[scale_index(row, group)]; }
  float global() const { return global_; }

  int zero(int64_t row, int64_t group) const {
    switch (options_.zero) {
      case Zero::kNone:
        return options_.codes == Codes::kI8 ? 128 : 0;
      case Zero::kMiddle:
        return 1 << (options_.bits - 1);
      default:
        return zeros_[static_cast<size_t>(is_transposed() ? group * shape_.rows + row : zero_index(row, group))];
    }
  }

  // A column's group; with an order, what it says, kept inside the groups there are.
  int64_t group_of(int64_t column) const {
    if (order_ == nullptr) return column / options_.block_columns;
    const auto group = static_cast<int32_t>(word_at(order_, column));
    return std::clamp<int64_t>(group, 0, shape_.scale_columns - 1);
  }

  void read_row(int64_t row, uint8_t* out) const {
    const int64_t columns = shape_.columns;
    const auto* bytes = reinterpret_cast<const uint8_t*>(codes_);
    const uint32_t mask = options_.bits == 8 ? 255u : (1u << options_.bits) - 1;
    const int64_t per_word = 32 / options_.bits;
    switch (options_.codes) {
      case Codes::kE4M3:
      case Codes::kE5M2:
        std::memcpy(out, bytes + row * columns, static_cast<size_t>(columns));
        return;
      case Codes::kI8:
        for (int64_t k = 0; k < columns; ++k) out[k] = bytes[row * columns + k] ^ 0x80;
        return;
      case Codes::kE2M1:
        for (int64_t k = 0; k < columns; ++k) {
          out[k] = static_cast<uint8_t>((bytes[(row * columns + k) / 2] >> (k % 2 * 4)) & 15);
        }
        return;
      case Codes::kPacked: {
        const int64_t words = (columns + per_word - 1) / per_word;
        for (int64_t k = 0; k < columns; ++k) {
          const uint32_t word = word_at(codes_, row * words + k / per_word);
          out[k] = static_cast<uint8_t>((word >> (k % per_word * options_.bits)) & mask);
        }
        return;
      }
      case Codes::kGptq:
        for (int64_t k = 0; k < columns; ++k) {
          const uint32_t word = word_at(codes_, k / per_word * shape_.rows + row);
          out[k] = static_cast<uint8_t>((word >> (k % per_word * options_.bits)) & mask);
        }
        return;
      case Codes::kAwq:
        for (int64_t k = 0; k < columns; ++k) {
          const uint32_t word = word_at(codes_, k * (shape_.rows / 8) + row / 8);
          out[k] = static_cast<uint8_t>((word >> kAwqShift[row % 8]) & 15);
        }
        return;
    }
  }

 private:
  static const tensor::View& input(const KernelCall& call, int place) {
    return call.inputs[static_cast<size_t>(place)];
  }

  // Matrix `index` of a part that has as many elements for each.
  const std::byte* slice_of(const tensor::View& view, int64_t index) const {
    const int64_t matrices = tensor::num_elements(shape_.leading);
    return view.as<const std::byte>() +
           view.num_elements() / matrices * index * tensor::dtype_info(view.dtype).block_bytes;
  }

  static void decode(DType type, const std::byte* from, std::span<float> out) {
    const int64_t bytes = static_cast<int64_t>(out.size()) * tensor::dtype_info(type).block_bytes;
    FL_CHECK(tensor::decode_to_f32(type, {from, static_cast<size_t>(bytes)}, out).ok());
  }

  bool is_transposed() const { return options_.codes == Codes::kGptq || options_.codes == Codes::kAwq; }
  int64_t zero_index(int64_t row, int64_t group) const {
    const int64_t zero_row = options_.codes == Codes::kI8 ? row / options_.block_rows : row;
    return zero_row * shape_.scale_columns + group;
  }
  size_t scale_index(int64_t row, int64_t group) const {
    const int64_t scale_row = row / options_.block_rows;
    return static_cast<size_t>(is_transposed() ? group * shape_.scale_rows + scale_row
                                               : scale_row * shape_.scale_columns + group);
  }

  void read_zeros(const std::byte* from) {
    const int64_t groups = shape_.scale_columns;
    const int bits = options_.bits;
    if (options_.codes == Codes::kI8) {
      zeros_.resize(static_cast<size_t>(shape_.scale_rows * groups));
      for (size_t i = 0; i < zeros_.size(); ++i) zeros_[i] = std::to_integer<uint8_t>(from[i]) ^ 0x80;
      return;
    }
    const int64_t per_word = 32 / bits;
    const int64_t words = (shape_.rows + per_word - 1) / per_word;
    const uint32_t mask = bits == 8 ? 255u : (1u << bits) - 1;
    zeros_.resize(static_cast<size_t>(shape_.rows * groups));
    for (int64_t row = 0; row < shape_.rows; ++row) {
      for (int64_t group = 0; group < groups; ++group) {
        const bool packed = options_.codes == Codes::kPacked;
        const uint32_t word = word_at(from, packed ? row / per_word * groups + group : group * words + row / per_word);
        const int shift = options_.codes == Codes::kAwq ? kAwqShift[row % 8] : static_cast<int>(row % per_word) * bits;
        uint32_t zero = (word >> shift) & mask;
        if (options_.zero == Zero::kStoredMinusOne) zero = (zero + 1) & mask;
        zeros_[static_cast<size_t>(packed ? row * groups + group : group * shape_.rows + row)] =
            static_cast<uint8_t>(zero);
      }
    }
  }

  const Options& options_;
  const ops::AssembledShape& shape_;
  const std::byte* codes_ = nullptr;
  const std::byte* scale_codes_ = nullptr;
  const std::byte* order_ = nullptr;
  std::vector<float> scales_;
  std::vector<uint8_t> zeros_;
  float global_ = 1.0f;
};

void put_float(std::byte* at, float value) { std::memcpy(at, &value, 4); }

void put_nibbles(std::byte* at, const uint8_t* codes) {
  for (int j = 0; j < 16; ++j) at[j] = static_cast<std::byte>(codes[j] | codes[j + 16] << 4);
}

float decode_code(Codes kind, uint8_t code, int zero) {
  if (kind == Codes::kE4M3) return tensor::f8e4m3_to_f32(code);
  if (kind == Codes::kE5M2) return tensor::f8e5m2_to_f32(code);
  if (kind == Codes::kE2M1) return tensor::f4e2m1_to_f32(code);
  return static_cast<float>(code - zero);
}

void write_floats(const Matrix& matrix, const Options& options, int64_t row, const uint8_t* codes, float* out) {
  for (int64_t k = 0; k < options.shape.columns; ++k) {
    const int64_t group = matrix.group_of(k);
    const float scale = matrix.scale(row, group) * matrix.global();
    out[k] = scale * decode_code(options.codes, codes[k], matrix.zero(row, group));
  }
}

// The 32 (nvfp4: 64) columns from `first` on as one block.
void write_block(const Matrix& matrix, DType format, int64_t row, int64_t first, const uint8_t* codes, std::byte* out) {
  const int64_t group = matrix.group_of(first);
  switch (format) {
    case DType::kInt4G:
      put_float(out, matrix.scale(row, group));
      out[4] = static_cast<std::byte>(matrix.zero(row, group));
      return put_nibbles(out + 5, codes);
    case DType::kInt8G:
      put_float(out, matrix.scale(row, group));
      out[4] = static_cast<std::byte>(matrix.zero(row, group));
      std::memcpy(out + 5, codes, 32);
      return;
    case DType::kFP8G:
      put_float(out, matrix.scale(row, group));
      std::memcpy(out + 4, codes, 32);
      return;
    case DType::kNVFP4:
      put_float(out, matrix.global());
      for (int64_t i = 0; i < 4; ++i) out[4 + i] = matrix.scale_code(row, group + i);
      put_nibbles(out + 8, codes);
      return put_nibbles(out + 24, codes + 32);
    default:
      out[0] = matrix.scale_code(row, group);
      return put_nibbles(out + 1, codes);
  }
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& out = call.outputs[0];
  if (out.num_elements() == 0) return;
  const tensor::DTypeInfo& info = tensor::dtype_info(out.dtype);
  std::vector<uint8_t> codes(static_cast<size_t>(options.shape.columns));
  const Worker::Range range = worker.share(out.num_rows());
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t index = at / options.shape.rows;
    const Matrix matrix(call, index);
    const int64_t end = std::min(range.end, (index + 1) * options.shape.rows);
    for (; at < end; ++at) {
      const int64_t row = at - index * options.shape.rows;
      matrix.read_row(row, codes.data());
      auto* to = out.as<std::byte>() + at * row_stride(out);
      if (out.dtype == DType::kF32) {
        write_floats(matrix, options, row, codes.data(), reinterpret_cast<float*>(to));
        continue;
      }
      for (int64_t k = 0; k < options.shape.columns; k += info.block_elements, to += info.block_bytes) {
        write_block(matrix, out.dtype, row, k, codes.data() + k, to);
      }
    }
  }
}

}  // namespace

KernelBody assemble_weight_reference() {
  KernelBody body;
  body.symbol = "assemble_weight_any_any_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
