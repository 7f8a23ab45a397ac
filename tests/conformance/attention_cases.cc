// SPDX-License-Identifier: Apache-2.0
// Cases of rope, append and attend: batches of several sequences, windows, sinks, pages that end in the middle.
#include <cmath>

#include "case.h"
#include "tensor/codec.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;

std::string frequencies(int64_t length, double base) {
  std::string text;
  for (int64_t i = 0; i < length / 2; ++i) {
    const double f = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(length));
    text += (text.empty() ? "" : ", ") + ops::exact_decimal(f);
  }
  return "[" + text + "]";
}

constexpr DType kStateTypes[] = {DType::kF32,   DType::kF16,  DType::kBF16, DType::kQ8_0,
                                 DType::kMXFP8, DType::kQ4_1, DType::kQ4_1S};

struct Shape {
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t key_width = 16;
  int64_t value_width = 16;
  DType dtype = DType::kF32;
  int64_t page_rows = 16;
};

State make_state(Data& data, const Shape& shape, std::vector<Sequence> sequences) {
  State state;
  state.decl.name = "kv.0";
  state.decl.components = {{"k", shape.kv_heads, shape.key_width, shape.dtype},
                           {"v", shape.kv_heads, shape.value_width, shape.dtype}};
  state.page_rows = shape.page_rows;
  state.sequences = std::move(sequences);
  for (const ops::StateComponent& c : state.decl.components) {
    state.rows.emplace_back();
    for (const Sequence& s : state.sequences) {
      state.rows.back().push_back(
          stored_rows(data, c.dtype, c.width, (s.start_position + s.num_tokens) * c.heads * c.width));
    }
  }
  return state;
}

int64_t total_tokens(const std::vector<Sequence>& sequences) {
  int64_t total = 0;
  for (const Sequence& s : sequences) total += s.num_tokens;
  return total;
}

void add_attend(std::vector<Case>& cases, std::string name, const Shape& shape, std::vector<Sequence> sequences,
                const std::string& more, bool sinks = false) {
  Data data(static_cast<uint32_t>(100 + cases.size()));
  const int64_t tokens = total_tokens(sequences);
  Case c{std::move(name),
         OpKind::kAttend,
         attributes("{scale = 0.25, key = \"k\", value = \"v\"" + more + "}"),
         {data.floats(DType::kF32, {tokens, shape.heads, shape.key_width}), Data::state()},
         {make_state(data, shape, std::move(sequences))},
         {4e-6, 1e-5}};
  if (sinks) c.operands.push_back(data.floats(DType::kBF16, {shape.heads}));
  cases.push_back(std::move(c));
}

}  // namespace

std::vector<Case> rope_cases() {
  std::vector<Case> cases;
  Data data(41);
  const auto add = [&](std::string name, int64_t heads, int64_t width, std::vector<int32_t> positions,
                       const std::string& attr, std::vector<Sequence> sequences = {}) {
    const auto tokens = static_cast<int64_t>(positions.size());
    Case c{std::move(name),
           OpKind::kRope,
           attributes(attr),
           {data.floats(DType::kF32, {tokens, heads, width}), Data::from_ints({tokens}, positions)},
           {},
           {2e-6, 2e-6}};
    if (!sequences.empty()) {
      c.state.push_back({});
      c.state[0].sequences = std::move(sequences);
      for (Sequence& s : c.state[0].sequences) s.start_position = 0;
    }
    cases.push_back(std::move(c));
  };
  for (const char* style : {"half", "interleaved"}) {
    const std::string s = "style = \"" + std::string(style) + "\"";
    add(std::string(style) + " 64", 3, 64, {0, 1, 2, 1000, 8191},
        "{length = 64, freqs = " + frequencies(64, 1e4) + ", " + s + "}");
    add(std::string(style) + " far", 2, 128, {131071, 1000000, 16777215},
        "{length = 128, freqs = " + frequencies(128, 5e5) + ", " + s + "}");
    add(std::string(style) + " part", 2, 40, {3, 77},
        "{length = 12, offset = 5, freqs = " + frequencies(12, 1e4) + ", " + s + ", scale = 1.25}");
    add(std::string(style) + " inverse", 2, 10, {3, 77},
        "{length = 10, freqs = " + frequencies(10, 1e4) + ", " + s + ", inverse = true}");
  }
  add("none", 2, 16, {}, "{length = 16, freqs = " + frequencies(16, 1e4) + "}");
  const std::string two_sets = "{length = 16, freqs = " + frequencies(16, 1e4) +
                               ", long_freqs = " + frequencies(16, 1e6) + ", switch_length = 100, long_scale = 1.5}";
  add("two sets", 2, 16, {5, 6, 7, 5, 6}, two_sets, {{0, 3, 100}, {0, 2, 101}});
  const std::string dynamic = "{length = 16, freqs = " + frequencies(16, 1e4) +
                              ", dynamic_base = 10000.0, dynamic_factor = 4.0, dynamic_max = 64.0}";
  add("dynamic", 2, 16, {5, 6, 7, 5, 6}, dynamic, {{0, 3, 64}, {0, 2, 200}});
  return cases;
}

std::vector<Case> state_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kStateTypes) {
    Data data(42);
    const Shape shape{4, 3, 20, 24, dtype, 8};
    State state = make_state(data, shape, {{0, 5, 0}, {13, 1, 0}, {6, 11, 0}});
    cases.push_back({"rows as " + std::string(tensor::dtype_name(dtype)),
                     OpKind::kAppend,
                     {},
                     {Data::state(), data.floats(DType::kF32, {17, 3, 20}), data.floats(DType::kF32, {17, 3, 24})},
                     {std::move(state)},
                     {0, 0}});
    cases.push_back(rate_append_case(dtype));
  }
  Data data(43);
  State latent = make_state(data, {1, 1, 40, 40, DType::kF32, 16}, {{3, 2, 0}});
  latent.decl.components.pop_back();
  latent.rows.pop_back();
  cases.push_back({"one flat component",
                   OpKind::kAppend,
                   {},
                   {Data::state(), data.floats(DType::kF32, {2, 40})},
                   {std::move(latent)},
                   {0, 0}});
  return cases;
}

std::vector<Case> attend_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kStateTypes) {
    const std::string type(tensor::dtype_name(dtype));
    add_attend(cases, type + " prefill", {4, 2, 16, 16, dtype, 16}, {{0, 37, 0}}, "");
    add_attend(cases, type + " decode", {9, 3, 64, 64, dtype, 32}, {{300, 1, 0}}, "");
    add_attend(cases, type + " batch", {6, 2, 24, 40, dtype, 16}, {{0, 20, 0}, {63, 1, 0}, {15, 3, 0}, {16, 1, 0}}, "");
    add_attend(cases, type + " width 80", {2, 2, 80, 48, dtype, 16}, {{90, 1, 0}, {0, 9, 0}}, "");
    add_attend(cases, type + " window", {4, 2, 16, 16, dtype, 8}, {{0, 50, 0}, {70, 1, 0}}, ", window = 7");
    add_attend(cases, type + " sinks", {8, 2, 32, 32, dtype, 16}, {{0, 9, 0}, {40, 1, 0}}, ", window = 12", true);
    add_attend(cases, type + " softcap", {4, 1, 16, 16, dtype, 16}, {{0, 9, 0}, {40, 1, 0}},
               ", score = mul(2.0, tanh(div(x0, 2.0)))");
  }
  add_attend(cases, "window of one", {2, 2, 16, 16}, {{0, 5, 0}, {33, 2, 0}}, ", window = 1");
  add_attend(cases, "window as long as the sequence", {2, 2, 16, 16}, {{0, 33, 0}}, ", window = 33");
  add_attend(cases, "not causal", {4, 2, 16, 16}, {{0, 21, 0}, {4, 3, 0}}, ", causal = false");
  add_attend(cases, "not causal, window", {4, 2, 16, 16}, {{0, 21, 0}}, ", causal = false, window = 5");
  add_attend(cases, "odd widths", {3, 3, 7, 5, DType::kF32, 4}, {{0, 11, 0}, {9, 1, 0}}, "");
  add_attend(cases, "odd widths bf16", {3, 1, 33, 17, DType::kBF16, 8}, {{0, 11, 0}, {19, 1, 0}}, "");
  add_attend(cases, "score with positions", {4, 2, 16, 16}, {{0, 19, 0}, {30, 2, 0}},
             ", score = sub(x0, mul(mul(0.1, add(x3, 1.0)), sub(x1, x2)))");
  add_attend(cases, "masking score", {2, 1, 16, 16}, {{0, 19, 0}}, ", score = where(lt(sub(x1, x2), 4.0), x0, -inf)");
  add_attend(cases, "long decode", {8, 2, 64, 64, DType::kBF16, 64}, {{5000, 1, 0}}, "");
  add_attend(cases, "long decode, one kv head", {4, 1, 64, 64, DType::kF16, 64}, {{3000, 1, 0}}, "", true);
  add_attend(cases, "long prefill chunk", {2, 1, 32, 32, DType::kBF16, 64}, {{700, 130, 0}}, "");
  add_attend(cases, "parts in a prompt", {3, 1, 32, 48, DType::kBF16, 64}, {{1000, 60, 0}}, "", true);
  add_attend(cases, "wide heads, window", {4, 1, 256, 256, DType::kBF16, 128}, {{700, 3, 0}}, ", window = 512");
  add_attend(cases, "parts in a window", {4, 2, 32, 32, DType::kF16, 16}, {{1500, 40, 0}}, ", window = 600");
  add_attend(cases, "no tokens", {2, 1, 16, 16}, {{5, 0, 0}}, "");
  for (const DType dtype : {DType::kBF16, DType::kQ8_0, DType::kMXFP8, DType::kQ4_1S}) {
    // keys and values in one component, as latent attention stores them
    Data data(99);
    State state = make_state(data, {4, 1, 72, 72, dtype, 16}, {{0, 18, 0}, {50, 1, 0}});
    state.decl.components.pop_back();
    state.rows.pop_back();
    cases.push_back({"latent " + std::string(tensor::dtype_name(dtype)),
                     OpKind::kAttend,
                     attributes("{scale = 0.1, key = \"k\", value = \"k\", value_width = 64}"),
                     {data.floats(DType::kF32, {19, 4, 72}), Data::state()},
                     {std::move(state)},
                     {4e-6, 1e-5}});
  }
  {  // scores far apart: exp must not overflow
    Data data(98);
    State state = make_state(data, {2, 1, 16, 16, DType::kF32, 16}, {{0, 40, 0}});
    cases.push_back({"large scores",
                     OpKind::kAttend,
                     attributes("{scale = 40.0, key = \"k\", value = \"v\"}"),
                     {data.floats(DType::kF32, {40, 2, 16}), Data::state()},
                     {std::move(state)},
                     {2e-4, 2e-4}});
  }
  return cases;
}

std::vector<Case> weight_cases() {
  std::vector<Case> cases;
  Data data(51);
  cases.push_back({"blocks of 128",
                   OpKind::kDequantize,
                   attributes("{block = [128, 128]}"),
                   {data.floats(DType::kF8E4M3, {200, 300}), data.floats(DType::kF32, {2, 3})},
                   {},
                   {0, 0}});
  cases.push_back({"experts",
                   OpKind::kDequantize,
                   attributes("{block = [3, 5]}"),
                   {data.floats(DType::kF8E4M3, {2, 7, 11}), data.floats(DType::kBF16, {2, 3, 3})},
                   {},
                   {0, 0}});
  Tensor blocks{tensor::Type::tensor(DType::kU8, {3, 4, 16}), {}};
  for (int i = 0; i < 3 * 4 * 16; ++i) blocks.data.push_back(static_cast<std::byte>(data.below(256)));
  Tensor scales{tensor::Type::tensor(DType::kU8, {3, 4}), {}};
  for (int i = 0; i < 3 * 4; ++i) scales.data.push_back(static_cast<std::byte>(120 + data.below(10)));
  cases.push_back({"blocks and scales", OpKind::kPackMxfp4, {}, {blocks, scales}, {}, {0, 0}});
  return cases;
}

}  // namespace firstlight::conformance
