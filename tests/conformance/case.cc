// SPDX-License-Identifier: Apache-2.0
#include "case.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/codec.h"
#include "tensor/state_rows.h"

namespace firstlight::conformance {

using tensor::DType;

namespace {

void put_half(std::byte* at, double value) {
  const uint16_t bits = tensor::f32_to_f16(static_cast<float>(value));
  std::memcpy(at, &bits, 2);
}

void put_float(std::byte* at, double value) {
  const auto single = static_cast<float>(value);
  std::memcpy(at, &single, 4);
}

// Gives the scales of a block sane values; the codes are random bytes already.
void set_scales(DType dtype, std::byte* block, double unit) {
  switch (dtype) {
    case DType::kQ8_0:
      return put_half(block, unit / 60);
    case DType::kQ4_0:
      return put_half(block, unit / 4);
    case DType::kQ5_0:
      return put_half(block, unit / 8);
    case DType::kQ4_1:
      put_half(block, unit / 4);
      return put_half(block + 2, -2 * unit);
    case DType::kQ5_1:
      put_half(block, unit / 8);
      return put_half(block + 2, -2 * unit);
    case DType::kQ4_K:
    case DType::kQ5_K:
      put_half(block, unit / 250);
      return put_half(block + 2, unit / 30);
    case DType::kQ6_K:
      return put_half(block + 208, unit / 1000);
    case DType::kMXFP4:
      block[0] = static_cast<std::byte>(127 + std::lround(std::log2(unit)) - (std::to_integer<int>(block[0]) & 1));
      return;
    case DType::kInt4G:
      put_float(block, unit / 4);
      block[4] &= std::byte{15};
      return;
    case DType::kInt8G:
      return put_float(block, unit / 60);
    case DType::kFP8G:
      put_float(block, unit);
      for (int i = 4; i < 36; ++i) block[i] &= std::byte{0xb7};
      return;
    case DType::kNVFP4:
      put_float(block, unit / 8);
      for (int i = 4; i < 8; ++i) block[i] = (block[i] & std::byte{0x1f}) | std::byte{0x20};
      return;
    default:
      return;
  }
}

}  // namespace

Tensor Data::floats(DType dtype, tensor::Shape shape, double scale) {
  Tensor t{tensor::Type::tensor(dtype, std::move(shape)), {}};
  const auto count = static_cast<size_t>(tensor::num_elements(t.type.shape));
  t.data.resize(static_cast<size_t>(tensor::size_bytes(t.type)));
  const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
  const bool encodes = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64;
  if (encodes) {
    std::vector<float> values(count);
    for (float& v : values) v = static_cast<float>(normal() * scale);
    FL_CHECK(tensor::encode_from_f32(dtype, values, t.data).ok());
    return t;
  }
  for (std::byte& b : t.data) b = static_cast<std::byte>(below(256));
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) {
    for (std::byte& b : t.data) b &= std::byte{0xb7};  // no NaN, no infinity, nothing huge
  }
  for (size_t i = 0; info.is_quantised && i < t.data.size(); i += static_cast<size_t>(info.block_bytes)) {
    set_scales(dtype, t.data.data() + i, scale);
  }
  return t;
}

Tensor Data::ints(tensor::Shape shape, int32_t begin, int32_t end) {
  std::vector<int32_t> values(static_cast<size_t>(tensor::num_elements(shape)));
  for (int32_t& v : values) v = begin + static_cast<int32_t>(below(static_cast<uint32_t>(end - begin)));
  return from_ints(std::move(shape), values);
}

Tensor Data::from(tensor::Shape shape, const std::vector<float>& values) {
  Tensor t{ops::f32(std::move(shape)), std::vector<std::byte>(values.size() * 4)};
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

Tensor Data::from_ints(tensor::Shape shape, const std::vector<int32_t>& values) {
  Tensor t{ops::i32(std::move(shape)), std::vector<std::byte>(values.size() * 4)};
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

Tensor Data::state() { return {tensor::Type::state(), {}}; }

std::vector<float> stored_rows(Data& data, DType dtype, int64_t width, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = static_cast<float>(data.normal());
  std::vector<std::byte> bytes(static_cast<size_t>(tensor::state_row_bytes(dtype, width)));
  for (size_t first = 0; first < values.size(); first += static_cast<size_t>(width)) {
    const std::span row(values.data() + first, static_cast<size_t>(width));
    for (int i = 0; i < 2; ++i) {  // the second time changes nothing
      FL_CHECK(tensor::encode_row(dtype, row, bytes).ok() && tensor::decode_row(dtype, bytes, row).ok());
    }
  }
  return values;
}

ops::Attributes attributes(std::string_view text) {
  auto parsed = ops::parse_attributes(text);
  FL_CHECK(parsed.ok());
  return *std::move(parsed);
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* part : {data_cases, math_cases, norm_cases, linear_cases, rope_cases, state_cases, attend_cases, log_cases,
                     recurrence_cases, weight_cases, quant_cases, fused_cases}) {
    for (Case& c : part()) {
      FL_CHECK(ops::check_attributes(ops::op_def(c.op), c.attributes).ok());
      all.push_back(std::move(c));
    }
  }
  return all;
}

}  // namespace firstlight::conformance
