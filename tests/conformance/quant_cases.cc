// SPDX-License-Identifier: Apache-2.0
// Cases of the operators of quantised checkpoints: weights put together from vendors' parts, activations rounded.
#include <cmath>
#include <cstring>
#include <limits>

#include "case.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;
constexpr Bound kExact{0, 0};

Tensor codes_of(Data& data, DType dtype, tensor::Shape shape) {
  Tensor t{tensor::Type::tensor(dtype, std::move(shape)), {}};
  t.data.resize(static_cast<size_t>(tensor::size_bytes(t.type)));
  for (std::byte& b : t.data) b = static_cast<std::byte>(data.below(256));
  return t;
}

// Small positive scales, as the type stores them.
Tensor scales_of(Data& data, DType dtype, tensor::Shape shape) {
  if (dtype == DType::kU8 || dtype == DType::kF8E8M0 || dtype == DType::kF8E4M3) {
    Tensor t = codes_of(data, dtype, std::move(shape));
    for (std::byte& b : t.data) {
      b = static_cast<std::byte>(dtype == DType::kF8E4M3 ? 0x20 + data.below(0x20) : 118 + data.below(12));
    }
    return t;
  }
  std::vector<float> values(static_cast<size_t>(tensor::num_elements(shape)));
  for (float& v : values) v = 0.01f + 0.001f * static_cast<float>(data.below(100));
  Tensor t{tensor::Type::tensor(dtype, std::move(shape)), {}};
  t.data.resize(static_cast<size_t>(tensor::size_bytes(t.type)));
  FL_CHECK(tensor::encode_from_f32(dtype, values, t.data).ok());
  return t;
}

void add(std::vector<Case>& cases, std::string_view name, std::string_view attr, std::vector<Tensor> operands) {
  cases.push_back({std::string(name), OpKind::kAssembleWeight, attributes(attr), std::move(operands), {}, kExact});
}

void floats(std::vector<Case>& cases, Data& data) {
  const auto fp8 = [&](tensor::Shape shape) { return data.floats(DType::kF8E4M3, std::move(shape)); };
  const auto scales = [&](DType dtype, tensor::Shape shape) { return scales_of(data, dtype, std::move(shape)); };
  add(cases, "fp8 blocks", "{format = \"fp8g\", codes = \"e4m3\", block = [128, 128]}",
      {fp8({200, 320}), scales(DType::kF32, {2, 3})});
  add(cases, "fp8 small blocks of powers", "{format = \"fp8g\", codes = \"e4m3\", block = [32, 32]}",
      {fp8({40, 96}), scales(DType::kF8E8M0, {2, 3})});
  add(cases, "fp8 one scale", "{format = \"fp8g\", codes = \"e4m3\", block = [24, 64]}",
      {fp8({24, 64}), scales(DType::kF32, {})});
  add(cases, "fp8 channels, experts", "{format = \"fp8g\", codes = \"e4m3\", block = [1, 64]}",
      {fp8({3, 5, 64}), scales(DType::kBF16, {3, 5, 1})});
  add(cases, "mxfp8", "{format = \"fp8g\", codes = \"e4m3\", block = [1, 32]}",
      {fp8({7, 64}), scales(DType::kU8, {7, 2})});
  add(cases, "fp8 odd sizes", "{format = \"f32\", codes = \"e4m3\", block = [3, 5]}",
      {fp8({2, 7, 11}), scales(DType::kBF16, {2, 3, 3})});
  add(cases, "e5m2", "{format = \"f32\", codes = \"e5m2\", block = [1, 33]}",
      {data.floats(DType::kF8E5M2, {4, 33}), scales(DType::kF16, {4})});
  const auto nibbles = [&](tensor::Shape shape) { return codes_of(data, DType::kU8, std::move(shape)); };
  const std::string nvfp4 = ", codes = \"e2m1\", bits = 4, block = [1, 16], global = ";
  for (const std::string format : {"nvfp4", "f32"}) {
    add(cases, format + " multiplied", "{format = \"" + format + "\"" + nvfp4 + "\"multiplies\"}",
        {nibbles({5, 64}), scales(DType::kF8E4M3, {5, 8}), scales(DType::kF32, {1})});
    add(cases, format + " divided, experts", "{format = \"" + format + "\"" + nvfp4 + "\"divides\"}",
        {nibbles({2, 5, 32}), scales(DType::kF8E4M3, {2, 5, 4}), scales(DType::kF32, {2, 1})});
  }
  add(cases, "nvfp4 without a global scale", "{format = \"nvfp4\"" + nvfp4 + "\"none\"}",
      {nibbles({5, 32}), scales(DType::kF8E4M3, {5, 4})});
  add(cases, "mxfp4", "{format = \"mxfp4\", codes = \"e2m1\", bits = 4, block = [1, 32]}",
      {nibbles({6, 48}), scales(DType::kU8, {6, 3})});
  add(cases, "e2m1 in blocks of both axes", "{format = \"f32\", codes = \"e2m1\", bits = 4, block = [2, 10]}",
      {nibbles({5, 10}), scales(DType::kF32, {3, 2})});
}

void integers(std::vector<Case>& cases, Data& data) {
  const auto words = [&](tensor::Shape shape) { return codes_of(data, DType::kI32, std::move(shape)); };
  const auto scales = [&](DType dtype, tensor::Shape shape) { return scales_of(data, dtype, std::move(shape)); };
  add(cases, "int4 groups", "{format = \"int4g\", codes = \"packed\", bits = 4, block = [1, 32], zero = \"middle\"}",
      {words({20, 12}), scales(DType::kBF16, {20, 3})});
  add(cases, "int4 zeros", "{format = \"int4g\", codes = \"packed\", bits = 4, block = [1, 64], zero = \"stored\"}",
      {words({20, 16}), scales(DType::kF16, {20, 2}), words({3, 2})});
  add(cases, "int4 channels, experts",
      "{format = \"int4g\", codes = \"packed\", bits = 4, block = [1, 64], zero = \"middle\"}",
      {words({2, 9, 8}), scales(DType::kF32, {2, 9, 1})});
  add(cases, "int4, the last word not full",
      "{format = \"f32\", codes = \"packed\", bits = 4, block = [1, 20], zero = \"stored\", columns = 37}",
      {words({20, 5}), scales(DType::kF16, {20, 2}), words({3, 2})});
  add(cases, "int8 words", "{format = \"int8g\", codes = \"packed\", bits = 8, block = [1, 64], zero = \"middle\"}",
      {words({5, 16}), scales(DType::kF16, {5, 1})});
  add(cases, "int2", "{format = \"int4g\", codes = \"packed\", bits = 2, block = [1, 32], zero = \"stored\"}",
      {words({20, 4}), scales(DType::kF16, {20, 2}), words({2, 2})});
  for (const int bits : {2, 4, 8}) {
    const std::string start = std::string("{format = \"") + (bits == 8 ? "int8g" : "int4g") +
                              "\", codes = \"gptq\", bits = " + std::to_string(bits) + ", block = [1, 32]";
    const int64_t k_words = 64 * bits / 32;
    const int64_t row_words = 16 * bits / 32;
    add(cases, "gptq " + std::to_string(bits), start + ", zero = \"stored_minus_one\"}",
        {words({k_words, 16}), scales(DType::kF16, {2, 16}), words({2, row_words})});
    add(cases, "gptq v2 " + std::to_string(bits), start + ", zero = \"stored\"}",
        {words({3, k_words, 16}), scales(DType::kF16, {3, 2, 16}), words({3, 2, row_words})});
  }
  add(cases, "gptq in another order",
      "{format = \"f32\", codes = \"gptq\", bits = 4, block = [1, 16], zero = \"stored_minus_one\", ordered = true}",
      {words({6, 8}), scales(DType::kF16, {3, 8}), words({3, 1}), data.ints({48}, 0, 3)});
  add(cases, "awq", "{format = \"int4g\", codes = \"awq\", bits = 4, block = [1, 64], zero = \"stored\"}",
      {words({128, 3}), scales(DType::kF16, {2, 24}), words({2, 3})});
  add(cases, "awq, experts", "{format = \"f32\", codes = \"awq\", bits = 4, block = [1, 16], zero = \"stored\"}",
      {words({2, 48, 2}), scales(DType::kF16, {2, 3, 16}), words({2, 3, 2})});
  const auto bytes = [&](tensor::Shape shape) { return codes_of(data, DType::kI8, std::move(shape)); };
  add(cases, "int8 channels", "{format = \"int8g\", codes = \"i8\", block = [1, 96]}",
      {bytes({6, 96}), scales(DType::kF32, {6, 1})});
  add(cases, "int8 zeros", "{format = \"int8g\", codes = \"i8\", block = [1, 32], zero = \"stored\"}",
      {bytes({6, 96}), scales(DType::kBF16, {6, 3}), bytes({6, 3})});
  add(cases, "int8 odd", "{format = \"f32\", codes = \"i8\", block = [6, 35]}",
      {bytes({6, 35}), scales(DType::kF32, {1})});
}

void rounded(std::vector<Case>& cases, Data& data) {
  const auto add_quant = [&](std::string_view attr, std::vector<Tensor> operands) {
    cases.push_back({std::string(attr), OpKind::kFakeQuant, attributes(attr), std::move(operands), {}, kExact});
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::string format : {"e4m3", "e5m2", "e2m1", "int8", "int4"}) {
    const std::string start = "{format = \"" + format + "\"";
    for (const std::string rest :
         {"}", ", block = 128}", ", block = 32, scale_format = \"ue8m0\"}", ", block = 16, scale_format = \"e4m3\"}",
          ", block = 5, least = 0.5}", ", scale = 0.037}", ", block = 16, scale_format = \"e4m3\", scale = 0.01}"}) {
      add_quant(start + rest, {data.floats(DType::kF32, {7, 300})});
    }
    add_quant(start + ", scale_format = \"ue8m0\"}", {data.floats(DType::kF32, {3, 40}, 1e-6)});
    add_quant(start + "}", {data.floats(DType::kF32, {5, 64}), Data::from({1}, {0.02f})});
    add_quant(
        start + ", scale = 1.0}",  // every spacing, ties, what is beyond the largest, both zeros
        {Data::from({1, 24}, {0.0f,   -0.0f, 0.25f,  0.75f,         1.25f,         1.75f,         2.5f,   3.5f,
                              5.0f,   -5.0f, 6.0f,   7.0f,          7.5f,          -8.5f,         127.5f, -128.5f,
                              464.0f, 1e30f, -1e30f, 0.0009765625f, 0.0029296875f, 0.0146484375f, 1e-8f,  -1e-30f})});
    add_quant(start + ", scale = 1.0, block = 2}", {Data::from({4}, {kNan, kInf, -kInf, 1.0f})});
    add_quant(start + ", block = 2}", {Data::from({8}, {kNan, 1.0f, kInf, 1.0f, 0.0f, 0.0f, -0.0f, 2.0f})});
    add_quant(start + "}", {data.floats(DType::kF32, {0, 64})});
  }
  for (const std::string format : {"e4m3", "e2m1"}) {  // all over the range of float32
    std::vector<float> values;
    for (uint32_t i = 0; i < 4096; ++i) {
      const float value =
          std::ldexp(static_cast<float>(static_cast<int>(i % 64) - 32) + 0.5f, static_cast<int>(i / 64) - 32);
      values.push_back(value);
    }
    add_quant("{format = \"" + format + "\", scale = 1.0}", {Data::from({64, 64}, values)});
    add_quant("{format = \"" + format + "\", scale_format = \"ue8m0\", block = 32}", {Data::from({64, 64}, values)});
  }
}

}  // namespace

std::vector<Case> quant_cases() {
  std::vector<Case> cases;
  Data data(61);
  floats(cases, data);
  integers(cases, data);
  rounded(cases, data);
  return cases;
}

}  // namespace firstlight::conformance
