// SPDX-License-Identifier: Apache-2.0
// Cases of the arithmetic operators and the norms.
#include <cmath>
#include <limits>

#include "case.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;
constexpr Bound kExact{0, 0};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void maps(std::vector<Case>& cases) {
  Data data(21);
  const auto f = [&](tensor::Shape shape) { return data.floats(DType::kF32, std::move(shape)); };
  const auto add = [&](std::string_view expr, std::vector<Tensor> operands, Bound bound = {2e-6, 4e-6}) {
    cases.push_back({std::string(expr),
                     OpKind::kMap,
                     attributes("{expr = " + std::string(expr) + "}"),
                     std::move(operands),
                     {},
                     bound});
  };
  add("mul(mul(x0, sigmoid(x0)), x1)", {f({7, 1536}), f({7, 1536})});
  add("add(x0, x1)", {f({5, 33}), f({33})});
  add("add(x0, x1)", {f({4, 1, 17}), f({3, 1})});
  add("mul(x0, x1)", {f({5, 33}), f({})});
  add("mul(x0, x1)", {f({1}), f({5, 300})});
  add("x0", {f({3, 5})}, kExact);
  add("(2.5)", {f({3, 5})}, kExact);
  add("add(x0, 1.0)", {f({0, 64})});
  add("add(x0, 1.0)", {f({})});
  add("add(x0, x1)", {data.floats(DType::kBF16, {4, 40}), data.ints({40}, -9, 9)});
  add("mul(0.5, mul(x0, add(1.0, tanh(mul(0.7978845608, add(x0, mul(0.044715, mul(x0, mul(x0, x0)))))))))",
      {f({3, 777})});
  add("mul(mul(0.5, x0), add(1.0, erf(mul(x0, 0.70710678))))", {f({2, 100})});
  add("mul(add(min(max(x1, -7.0), 7.0), 1.0), mul(min(x0, 7.0), sigmoid(mul(1.702, min(x0, 7.0)))))",
      {f({2, 90}), f({2, 90})});
  add("where(lt(x0, x1), exp(x0), log1p(abs(x1)))", {f({3, 50}), f({3, 50})});
  add("add(pow(abs(x0), 1.5), add(rsqrt(add(abs(x1), 0.1)), sqrt(abs(x0))))", {f({3, 50}), f({3, 50})});
  add("add(le(x0, x1), add(eq(x0, x0), add(sign(x0), floor(x1))))", {f({3, 50}), f({3, 50})}, kExact);
  add("add(sin(x0), add(cos(x1), expm1(x0)))", {f({3, 50}), f({3, 50})});
  add("div(sub(x0, x1), add(log(abs(x0)), 9.0))", {f({3, 50}), f({3, 50})}, {1e-5, 2e-5});
  add("neg(min(x0, max(x1, 0.0)))", {Data::from({6}, {kNan, kInf, -kInf, 0.0f, 1.0f, -1.0f}),
                                     Data::from({6}, {1.0f, kNan, 2.0f, kNan, kInf, -kInf})});
  add("exp(x0)", {Data::from({7}, {kNan, kInf, -kInf, 88.0f, 89.0f, -104.0f, -87.5f})}, {1e-38, 2e-6});
  add("sigmoid(x0)", {Data::from({7}, {kNan, kInf, -kInf, 88.0f, -88.0f, -100.0f, 0.0f})}, {1e-37, 2e-6});
  add("tanh(x0)", {Data::from({7}, {kNan, kInf, -kInf, 1e-20f, -30.0f, 0.01f, 0.0f})}, {0, 2e-6});
}

void reductions(std::vector<Case>& cases) {
  Data data(22);
  const auto f = [&](tensor::Shape shape, double scale = 1) {
    return data.floats(DType::kF32, std::move(shape), scale);
  };
  const auto add = [&](OpKind op, std::string_view attr, std::vector<Tensor> operands, Bound bound = {1e-6, 4e-6}) {
    cases.push_back({std::string(attr), op, attributes(attr), std::move(operands), {}, bound});
  };
  add(OpKind::kReduce, "{op = \"sum\"}", {f({5, 301})}, {2e-5, 1e-5});
  add(OpKind::kReduce, "{op = \"mean\", axis = 1, keep = false}", {f({3, 7, 5})});
  add(OpKind::kReduce, "{op = \"max\", axis = 0}", {f({9, 5})}, kExact);
  add(OpKind::kReduce, "{op = \"max\"}", {Data::from({2, 3}, {kNan, 1.0f, 2.0f, -kInf, -kInf, -5.0f})}, kExact);
  add(OpKind::kReduce, "{op = \"sum\", axis = 0}", {f({0, 5})}, kExact);
  for (const int64_t n : {1, 2, 15, 16, 17, 100, 1000}) add(OpKind::kSoftmax, "", {f({3, n}, 4)}, {1e-7, 1e-5});
  add(OpKind::kSoftmax, "", {f({0, 5})});
  add(OpKind::kSoftmax, "",
      {Data::from({4, 3}, {-kInf, 0.0f, 1.0f, kNan, 0.0f, 1.0f, -kInf, -kInf, -kInf, 500.0f, 499.0f, -500.0f})},
      {1e-7, 1e-5});
  add(OpKind::kSoftmax, "", {data.floats(DType::kBF16, {2, 40})}, {1e-7, 1e-5});
  add(OpKind::kTopK, "{k = 4}", {f({5, 33})}, kExact);
  add(OpKind::kTopK, "{k = 3}", {Data::from({2, 5}, {1.0f, 2.0f, 2.0f, kNan, 2.0f, kNan, kNan, -kInf, kNan, kInf})},
      kExact);
  add(OpKind::kTopK, "{k = 5}", {Data::from({1, 5}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f})}, kExact);
  add(OpKind::kReduce, "{op = \"min\", axis = 1}", {f({3, 9, 5})}, kExact);
  add(OpKind::kReduce, "{op = \"min\"}", {Data::from({2, 3}, {kNan, 1.0f, 2.0f, kInf, kInf, -5.0f})}, kExact);
  for (const char* attr :
       {"", "{exclusive = true}", "{reverse = true}", "{axis = 1, exclusive = true, reverse = true}"}) {
    add(OpKind::kCumsum, attr, {f({3, 5, 70})});
  }
  add(OpKind::kCumsum, "", {data.floats(DType::kBF16, {0, 4})});
  add(OpKind::kCumsum, "", {Data::from({2, 3}, {1.0f, kInf, -kInf, 1e30f, -1e30f, 1.0f})});
  add(OpKind::kImap, "{expr = mod(xor(mul(x0, 2654435761.0), x1), 1009.0), to = \"i32\"}",
      {data.ints({7, 5}, -100, 100), data.ints({5}, 0, 100)}, kExact);
  add(OpKind::kImap, "{expr = where(lt(x0, 0.0), neg(x0), max(x0, x1)), to = \"i32\"}",
      {data.ints({33}, -9, 9), data.ints({1}, 3, 4)}, kExact);
  add(OpKind::kImap,
      "{expr = sub(add(mul(abs(x0), sign(x1)), eq(x0, x1)), mod(x1, where(le(x0, x1), min(x0, x1), x2)))}",
      {data.ints({6, 1, 4}, -9, 9), data.ints({5, 4}, -4, 4), data.ints({1}, -3, -2)}, kExact);
  for (const char* equation : {"tij,tjd->tid", "tij,tjd->tdi", "tij,tjd->t", "tij,tjd->jit"}) {
    add(OpKind::kEinsum, "{equation = \"" + std::string(equation) + "\"}", {f({5, 4, 3}), f({5, 3, 33})});
  }
  add(OpKind::kEinsum, "{equation = \"ab,ab->\"}", {f({3, 40}), data.floats(DType::kBF16, {3, 40})});
  add(OpKind::kEinsum, "{equation = \"a,b->ab\"}", {f({3}), f({0})});
  add(OpKind::kConv2d, "{padding = [1]}", {f({2, 3, 5, 6}), f({4, 3, 3, 2}), f({4})});
  add(OpKind::kConv2d, "{padding = [1, 0, 2, 1], stride = [2, 1], dilation = [1, 2], groups = 2}",
      {data.floats(DType::kBF16, {2, 4, 7, 9}), data.floats(DType::kF16, {6, 2, 3, 2})});
  add(OpKind::kPool2d, "{op = \"mean\", kernel = [3, 2], stride = [1, 2], padding = [1]}", {f({2, 3, 5, 6})});
  add(OpKind::kPool2d, "{op = \"mean\", kernel = [2], stride = [1], padding = [1, 0, 1, 1], count_padding = false}",
      {data.floats(DType::kBF16, {1, 2, 4, 3})});
  add(OpKind::kPool2d, "{op = \"max\", kernel = [2], stride = [2]}",
      {Data::from({1, 1, 2, 4}, {kNan, 1.0f, 2.0f, -kInf, -kInf, -5.0f, 3.0f, 4.0f})}, kExact);
  add(OpKind::kInterp2d, "{size = [3, 8], mode = \"bilinear\"}", {f({2, 2, 5, 6})});
  for (const char* mode : {"\"nearest\"", "\"bilinear\", align_corners = true", "\"bicubic\"",
                           "\"bicubic\", antialias = true", "\"bilinear\", antialias = true"}) {
    add(OpKind::kInterp2d, "{size = [3, 8], mode = " + std::string(mode) + "}", {f({1, 2, 11, 5})});
  }
  add(OpKind::kIndexMask, "{size = 9}", {data.ints({6, 3}, -1, 10)}, kExact);
}

}  // namespace

std::vector<Case> math_cases() {
  std::vector<Case> cases;
  maps(cases);
  reductions(cases);
  return cases;
}

std::vector<Case> norm_cases() {
  std::vector<Case> cases;
  Data data(23);
  const auto f = [&](DType dtype, tensor::Shape shape) { return data.floats(dtype, std::move(shape)); };
  const auto add = [&](OpKind op, std::string_view attr, std::vector<Tensor> operands, std::string name = "") {
    cases.push_back({name + std::string(attr), op, attributes(attr), std::move(operands), {}, {1e-6, 4e-6}});
  };
  for (const int64_t n : {1, 7, 16, 33, 64, 576, 1000}) {
    const std::string size = std::to_string(n) + " ";
    add(OpKind::kRmsNorm, "{eps = 1e-05}", {f(DType::kF32, {3, n}), f(DType::kF32, {n})}, size);
    add(OpKind::kRmsNorm, "{eps = 1e-06, offset = 1.0}", {f(DType::kF32, {2, 3, n}), f(DType::kBF16, {n})}, size);
    add(OpKind::kLayerNorm, "{eps = 1e-05}", {f(DType::kF32, {3, n}), f(DType::kF32, {n}), f(DType::kF16, {n})}, size);
  }
  add(OpKind::kRmsNorm, "{eps = 1e-05}", {f(DType::kF32, {4, 5, 64})}, "no weight ");
  add(OpKind::kLayerNorm, "{eps = 1e-05}", {f(DType::kF32, {4, 5, 64})}, "no weight ");
  add(OpKind::kRmsNorm, "{eps = 1e-05}", {f(DType::kF32, {0, 64}), f(DType::kF32, {64})}, "no rows ");
  add(OpKind::kRmsNorm, "{eps = 1e-05}", {Data::from({1, 20}, std::vector<float>(20, 0.0f)), f(DType::kF32, {20})},
      "zeros ");
  add(OpKind::kRmsNorm, "{eps = 1e-12}", {data.floats(DType::kF32, {2, 40}, 1e-18), f(DType::kF32, {40})}, "tiny ");
  add(OpKind::kRmsNorm, "{eps = 1e-12}", {data.floats(DType::kF32, {2, 40}, 1e18), f(DType::kF32, {40})}, "huge ");
  add(OpKind::kRmsNorm, "{eps = 1e-05}", {Data::from({2, 3}, {kNan, 1.0f, 2.0f, 1.0f, 2.0f, 3.0f})}, "NaN in a row ");
  add(OpKind::kRmsNorm, "{eps = 1e-05}", {f(DType::kBF16, {3, 50}), f(DType::kF32, {50})}, "bf16 rows ");
  return cases;
}

}  // namespace firstlight::conformance
