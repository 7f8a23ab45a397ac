// SPDX-License-Identifier: Apache-2.0
// Cases of the operators that passes make: fused_rows, route, rope_append; and of constant.
#include <cmath>
#include <limits>

#include "case.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

void rows(std::vector<Case>& cases) {
  Data data(61);
  const auto f = [&](tensor::Shape shape, DType dtype = DType::kF32) { return data.floats(dtype, std::move(shape)); };
  const auto add = [&](std::string name, std::string_view attr, std::vector<Tensor> operands,
                       Bound bound = {2e-6, 1e-5}) {
    cases.push_back({std::move(name), OpKind::kFusedRows, attributes(attr), std::move(operands), {}, bound});
  };
  const std::string_view norm =
      "{stages = [add(x0, x1), mul(x3, x3), mul(mul(x3, rsqrt(add(x4, 1e-05))), add(x2, 1.0))], reduce = "
      "\"none,mean,none\", results = [0, 2]}";
  const std::string_view softmax =
      "{stages = [mul(x0, 0.5), x1, exp(sub(x1, x2)), x3, div(x3, x4)], reduce = \"none,max,none,sum,none\", results = "
      "[4]}";
  for (const int64_t n : {1, 7, 16, 33, 64, 256, 576, 1000}) {
    const std::string size = " " + std::to_string(n);
    add("sum and norm" + size, norm, {f({3, n}), f({3, n}), f({n})});
    add("softmax of a scaled row" + size, softmax, {f({2, 3, n})});
    add("l2 norm" + size,
        "{stages = [mul(x0, x0), mul(x0, rsqrt(add(x1, 1e-06)))], reduce = \"sum,none\", results = [1]}", {f({5, n})});
    add("reduced results" + size, "{stages = [abs(x0), x0], reduce = \"max,mean\", results = [0, 1]}", {f({5, n})});
  }
  add("gate behind a norm of heads",
      "{stages = [mul(x0, x0), mul(mul(mul(x0, rsqrt(add(x3, 1e-05))), x1), mul(x2, sigmoid(x2)))], reduce = "
      "\"mean,none\", results = [1]}",
      {f({4, 3, 64}), f({64}, DType::kBF16), f({4, 3, 64})});
  add("row factors",
      "{stages = [mul(x0, x1), mul(x3, x3), div(x3, add(sqrt(x4), x2))], reduce = \"none,sum,none\", results = [2]}",
      {f({4, 48}), Data::from({4, 1}, {0.5f, 1.0f, -2.0f, 3.0f}), Data::from({1}, {0.25f})});
  add("bf16 rows", "{stages = [mul(x0, x0), mul(x0, rsqrt(x1))], reduce = \"mean,none\", results = [1]}",
      {f({3, 50}, DType::kBF16)});
  add("no rows", "{stages = [x0, sub(x0, x1)], reduce = \"max,none\", results = [1]}", {f({0, 48})});
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  add("NaN in a row", "{stages = [x0, sub(x0, x1)], reduce = \"max,none\", results = [1]}",
      {Data::from({2, 3}, {1.0f, kNan, 2.0f, 1.0f, 2.0f, 3.0f})});
}

void routers(std::vector<Case>& cases) {
  Data data(62);
  const auto add = [&](std::string name, int64_t tokens, int64_t experts, DType dtype, std::string_view attr,
                       int vectors) {
    std::vector<Tensor> operands = {data.floats(DType::kF32, {tokens, 64}), data.floats(dtype, {experts, 64})};
    for (int i = 0; i < vectors; ++i) operands.push_back(data.floats(DType::kF32, {experts}));
    cases.push_back({std::move(name), OpKind::kRoute, attributes(attr), std::move(operands), {}, {4e-5, 4e-5}});
  };
  for (const int64_t tokens : {0, 1, 5, 19}) {
    const std::string count = ", T=" + std::to_string(tokens);
    add("softmax, divided" + count, tokens, 16, DType::kF32, "{k = 4, score = \"softmax\", after = \"sum\"}", 0);
    add("softmax among the best" + count, tokens, 10, DType::kBF16, "{k = 3, bias = true, after = \"softmax\"}", 1);
    add("sigmoid in groups" + count, tokens, 24, DType::kF32,
        "{k = 5, score = \"sigmoid\", correction = true, groups = 4, top_groups = 2, group_best = 2, after = \"sum\", "
        "eps = 1e-20, scale = 2.5}",
        1);
  }
  add("bias and correction", 3, 7, DType::kF16, "{k = 7, bias = true, correction = true, score = \"sigmoid\"}", 2);
  add("one of many", 3, 130, DType::kF32, "{k = 1, score = \"softmax\"}", 0);
}

std::string frequencies(int64_t length) {
  std::string text;
  for (int64_t i = 0; i < length / 2; ++i) {
    const double f = std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(length));
    text += (text.empty() ? "" : ", ") + ops::exact_decimal(f);
  }
  return "[" + text + "]";
}

void rope_appends(std::vector<Case>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t heads, int64_t kv_heads, int64_t width,
                       std::vector<Sequence> sequences, const std::string& attr, int norms) {
    Data data(static_cast<uint32_t>(630 + cases.size()));
    State state;
    state.decl.name = "kv.0";
    state.decl.components = {{"k", kv_heads, width, dtype}, {"v", kv_heads, width - 8, dtype}};
    state.page_rows = 8;
    state.sequences = std::move(sequences);
    std::vector<int32_t> positions;
    for (const ops::StateComponent& c : state.decl.components) {
      state.rows.emplace_back();
      for (const Sequence& s : state.sequences) {
        state.rows.back().emplace_back(static_cast<size_t>((s.start_position + s.num_tokens) * c.heads * c.width));
      }
    }
    for (const Sequence& s : state.sequences) {
      for (int64_t i = 0; i < s.num_tokens; ++i) positions.push_back(static_cast<int32_t>(s.start_position + i));
    }
    const auto tokens = static_cast<int64_t>(positions.size());
    std::vector<Tensor> operands = {
        Data::state(), Data::from_ints({tokens}, positions), data.floats(DType::kF32, {tokens, heads, width}),
        data.floats(DType::kF32, {tokens, kv_heads, width}), data.floats(DType::kF32, {tokens, kv_heads, width - 8})};
    for (int i = 0; i < norms; ++i) operands.push_back(data.floats(i == 0 ? DType::kF32 : DType::kBF16, {width}));
    cases.push_back({std::move(name),
                     OpKind::kRopeAppend,
                     attributes("{" + attr + "}"),
                     std::move(operands),
                     {std::move(state)},
                     {4e-6, 4e-6}});
  };
  const std::vector<Sequence> batch = {{0, 5, 0}, {13, 1, 0}, {6, 11, 0}};
  add("half", DType::kF16, 6, 2, 24, batch, "length = 24, freqs = " + frequencies(24), 0);
  add("a part, interleaved, with norms", DType::kBF16, 4, 4, 40, batch,
      "length = 16, offset = 8, style = \"interleaved\", norm = \"rms\", norm_eps = 1e-06, norm_offset = 1.0, freqs "
      "= " +
          frequencies(16),
      2);
  for (const DType dtype : {DType::kQ8_0, DType::kMXFP8, DType::kQ4_1, DType::kQ4_1S}) {
    add("half, " + std::string(tensor::dtype_name(dtype)), dtype, 6, 2, 72, batch,
        "length = 72, freqs = " + frequencies(72), 0);
  }
  add("one token", DType::kF16, 9, 3, 64, {{77, 1, 0}}, "length = 64, freqs = " + frequencies(64), 0);
  add("norms without weights", DType::kF16, 2, 1, 32, {{3, 4, 0}},
      "length = 32, norm = \"rms\", norm_eps = 1e-05, freqs = " + frequencies(32), 0);
}

}  // namespace

std::vector<Case> fused_cases() {
  std::vector<Case> cases;
  rows(cases);
  routers(cases);
  rope_appends(cases);
  Data data(64);
  cases.push_back({"six numbers",
                   OpKind::kConstant,
                   attributes("{values = [0.1, -2.0, 3.5, 0.0, 1e-40, 7.0], shape = [2, 3]}"),
                   {},
                   {},
                   {0, 0}});
  return cases;
}

}  // namespace firstlight::conformance
