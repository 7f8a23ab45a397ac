// SPDX-License-Identifier: Apache-2.0
// Cases of the recurrences, conv1d, shift and recent_tokens: several sequences in one batch, some in the middle, some
// without tokens; groups of heads; factors from 1 down to 0; odd sizes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "case.h"

namespace firstlight::conformance {
namespace {

using ops::OpKind;
using tensor::DType;
using Sequences = std::vector<Sequence>;

int64_t tokens_of(const Sequences& sequences) {
  int64_t total = 0;
  for (const Sequence& s : sequences) total += s.num_tokens;
  return total;
}

// A fixed state with a component "other" in front, which nobody may touch. Sequences that begin have zeros.
State fixed_state(Data& data, int64_t heads, int64_t width, Sequences sequences, double scale = 1) {
  State state;
  state.decl.name = "s.0";
  state.decl.kind = ops::StateKind::kFixed;
  state.decl.rewind = ops::Rewind::kSnapshot;
  state.decl.components = {{"other", 1, 3, DType::kF32}, {"s", heads, width, DType::kF32}};
  state.page_rows = 1;
  state.sequences = std::move(sequences);
  for (const ops::StateComponent& c : state.decl.components) {
    state.rows.emplace_back();
    for (const Sequence& s : state.sequences) {
      std::vector<float> values(static_cast<size_t>(c.heads * c.width), 0.0f);
      for (float& v : values) v = s.start_position > 0 ? static_cast<float>(data.normal() * scale) : 0.0f;
      state.rows.back().push_back(std::move(values));
    }
  }
  return state;
}

struct Sizes {
  int64_t groups, heads, key, value;
};

// Logarithms of factors: mostly close to 1, some 0 (the factor is 1 then), some so low that the factor is 0.
Tensor decays(Data& data, tensor::Shape shape, bool extremes) {
  std::vector<float> values(static_cast<size_t>(tensor::num_elements(shape)));
  for (float& v : values) {
    v = -static_cast<float>(std::fabs(data.normal()) * (data.below(4) == 0 ? 2.0 : 0.1));
    if (!extremes) continue;
    const uint32_t kind = data.below(12);
    if (kind == 0) v = 0.0f;
    if (kind == 1) v = -1e4f;
    if (kind == 2) v = -std::numeric_limits<float>::infinity();
  }
  return Data::from(std::move(shape), values);
}

Tensor shares(Data& data, tensor::Shape shape) {  // numbers between 0 and 1
  std::vector<float> values(static_cast<size_t>(tensor::num_elements(shape)));
  for (float& v : values) v = static_cast<float>(1 / (1 + std::exp(-2 * data.normal())));
  return Data::from(std::move(shape), values);
}

// Rows of length 1, as keys of a delta rule are.
Tensor unit_rows(Data& data, tensor::Shape shape) {
  const auto width = static_cast<size_t>(shape.back().factor);
  std::vector<float> values(static_cast<size_t>(tensor::num_elements(shape)));
  for (size_t first = 0; first < values.size(); first += width) {
    double sum = 1e-6;
    std::vector<double> row(width);
    for (double& v : row) {
      v = data.normal();
      sum += v * v;
    }
    for (size_t i = 0; i < width; ++i) values[first + i] = static_cast<float>(row[i] / std::sqrt(sum));
  }
  return Data::from(std::move(shape), values);
}

ops::Attributes component() { return attributes("{component = \"s\"}"); }

enum class Decay : uint8_t { kConstant, kHead, kKey };

Tensor decay_operand(Data& data, Decay form, int64_t tokens, const Sizes& n, bool extremes) {
  switch (form) {
    case Decay::kConstant:
      return decays(data, {n.heads}, false);
    case Decay::kHead:
      return decays(data, {tokens, n.heads}, extremes);
    case Decay::kKey:
      return decays(data, {tokens, n.heads, n.key}, extremes);
  }
  FL_CHECK(false);
}

void add_gla(std::vector<Case>& cases, std::string name, const Sizes& n, Sequences sequences, Decay form,
             bool bonus = false, bool extremes = false) {
  Data data(300 + static_cast<uint32_t>(cases.size()));
  const int64_t tokens = tokens_of(sequences);
  const double scale = 1 / std::sqrt(static_cast<double>(n.key));
  std::vector<Tensor> operands = {data.floats(DType::kF32, {tokens, n.groups, n.key}, scale),
                                  data.floats(DType::kF32, {tokens, n.groups, n.key}, scale),
                                  data.floats(DType::kF32, {tokens, n.heads, n.value}),
                                  decay_operand(data, form, tokens, n, extremes), Data::state()};
  if (bonus) operands.push_back(data.floats(DType::kF32, {n.heads, n.key}));
  State state = fixed_state(data, n.heads * n.key, n.value, std::move(sequences));
  cases.push_back(
      {std::move(name), OpKind::kRecurGla, component(), std::move(operands), {std::move(state)}, {1.5e-5, 1.5e-5}});
}

void add_delta(std::vector<Case>& cases, std::string name, const Sizes& n, Sequences sequences, Decay form,
               bool extremes = false) {
  Data data(400 + static_cast<uint32_t>(cases.size()));
  const int64_t tokens = tokens_of(sequences);
  std::vector<Tensor> operands = {unit_rows(data, {tokens, n.groups, n.key}),
                                  unit_rows(data, {tokens, n.groups, n.key}),
                                  data.floats(DType::kF32, {tokens, n.heads, n.value}),
                                  decay_operand(data, form, tokens, n, extremes),
                                  shares(data, {tokens, n.heads}),
                                  Data::state()};
  State state = fixed_state(data, n.heads * n.key, n.value, std::move(sequences));
  cases.push_back(
      {std::move(name), OpKind::kRecurDelta, component(), std::move(operands), {std::move(state)}, {1.5e-5, 1.5e-5}});
}

void add_matrix_forms(std::vector<Case>& cases) {
  const Sequences batch = {{0, 20, 0}, {63, 1, 0}, {5, 0, 0}, {15, 3, 0}, {16, 70, 0}};
  for (const auto& [name, form] : {std::pair{"by head", Decay::kHead}, std::pair{"by key", Decay::kKey}}) {
    const std::string text = name;
    add_gla(cases, text, {2, 4, 16, 24}, batch, form);
    add_gla(cases, text + ", odd sizes", {1, 3, 7, 5}, {{0, 37, 0}, {3, 2, 0}}, form);
    add_gla(cases, text + ", extremes", {2, 2, 32, 33}, {{0, 80, 0}, {9, 65, 0}}, form, false, true);
    add_gla(cases, text + ", bonus", {3, 3, 16, 16}, batch, form, true);
    add_gla(cases, text + ", decode", {2, 8, 64, 64}, {{300, 1, 0}, {7, 1, 0}, {0, 1, 0}}, form);
    add_delta(cases, text, {2, 4, 16, 24}, batch, form);
    add_delta(cases, text + ", odd sizes", {1, 3, 7, 5}, {{0, 37, 0}, {3, 2, 0}}, form);
    add_delta(cases, text + ", extremes", {2, 2, 32, 33}, {{0, 80, 0}, {9, 65, 0}}, form, true);
    add_delta(cases, text + ", decode", {2, 8, 64, 64}, {{300, 1, 0}, {7, 1, 0}, {0, 1, 0}}, form);
    add_delta(cases, text + ", wide", {1, 2, 128, 128}, {{64, 130, 0}}, form);
  }
  add_gla(cases, "constant decay", {4, 4, 16, 16}, batch, Decay::kConstant);
  add_gla(cases, "constant decay, bonus", {2, 4, 16, 12}, {{0, 33, 0}, {8, 1, 0}}, Decay::kConstant, true);
  add_gla(cases, "no tokens", {1, 2, 8, 8}, {{5, 0, 0}}, Decay::kHead);
  add_delta(cases, "no tokens", {1, 2, 8, 8}, {{5, 0, 0}}, Decay::kHead);
  Sequences many(256, Sequence{40, 1, 0});
  for (size_t i = 0; i < many.size(); i += 5) many[i].num_tokens = static_cast<int64_t>(i % 4);
  add_gla(cases, "256 sequences", {1, 2, 16, 16}, many, Decay::kHead);
  add_delta(cases, "256 sequences", {1, 2, 16, 16}, many, Decay::kKey);
  add_gla(cases, "one element", {1, 1, 1, 1}, {{0, 9, 0}}, Decay::kHead);
  add_delta(cases, "one element", {1, 1, 1, 1}, {{0, 9, 0}}, Decay::kHead);
}

void add_dplr(std::vector<Case>& cases, std::string name, const Sizes& n, Sequences sequences) {
  Data data(500 + static_cast<uint32_t>(cases.size()));
  const int64_t tokens = tokens_of(sequences);
  const tensor::Shape by_key = {tokens, n.heads, n.key};
  // As the model makes them: a = -kk and b = kk times a share, so that the transition shrinks.
  const Tensor unit = unit_rows(data, by_key);
  const Tensor share = shares(data, by_key);
  std::vector<float> a, b;
  const std::vector<double> kk = unit.values(), part = share.values();
  for (size_t i = 0; i < kk.size(); ++i) {
    a.push_back(static_cast<float>(-kk[i]));
    b.push_back(static_cast<float>(kk[i] * part[i]));
  }
  const double scale = 1 / std::sqrt(static_cast<double>(n.key));
  std::vector<Tensor> operands = {data.floats(DType::kF32, by_key, scale),
                                  decays(data, by_key, false),
                                  data.floats(DType::kF32, by_key, scale),
                                  data.floats(DType::kF32, {tokens, n.heads, n.value}),
                                  Data::from(by_key, a),
                                  Data::from(by_key, b),
                                  Data::state()};
  State state = fixed_state(data, n.heads * n.value, n.key, std::move(sequences));
  cases.push_back(
      {std::move(name), OpKind::kRecurDplr, component(), std::move(operands), {std::move(state)}, {8e-6, 8e-6}});
}

void add_selective(std::vector<Case>& cases, std::string name, int64_t channels, int64_t states, Sequences sequences,
                   DType rates) {
  Data data(600 + static_cast<uint32_t>(cases.size()));
  const int64_t tokens = tokens_of(sequences);
  std::vector<float> a;
  for (int64_t i = 0; i < channels * states; ++i) a.push_back(-static_cast<float>(std::exp(data.normal())));
  Tensor rate = Data::from({channels, states}, a);
  if (rates != DType::kF32) rate = data.floats(rates, {channels, states}, 0.5);
  const Tensor x = data.floats(DType::kF32, {tokens, channels});
  std::vector<Tensor> operands = {x,
                                  shares(data, {tokens, channels}),
                                  rate,
                                  data.floats(DType::kF32, {tokens, states}),
                                  data.floats(DType::kF32, {tokens, states}),
                                  Data::state()};
  State state = fixed_state(data, channels, states, std::move(sequences));
  cases.push_back(
      {std::move(name), OpKind::kRecurSelective, component(), std::move(operands), {std::move(state)}, {8e-6, 8e-6}});
}

void add_elementwise(std::vector<Case>& cases, std::string name, int64_t channels, Sequences sequences) {
  Data data(650 + static_cast<uint32_t>(cases.size()));
  const int64_t tokens = tokens_of(sequences);
  std::vector<Tensor> operands = {shares(data, {tokens, channels}), data.floats(DType::kF32, {tokens, channels}),
                                  Data::state()};
  State state = fixed_state(data, 1, channels, std::move(sequences));
  cases.push_back(
      {std::move(name), OpKind::kRecurElementwise, component(), std::move(operands), {std::move(state)}, {2e-6, 2e-6}});
}

void add_conv(std::vector<Case>& cases, std::string name, int64_t channels, int64_t taps, int64_t dilation,
              Sequences sequences, DType weights, bool bias) {
  Data data(700 + static_cast<uint32_t>(cases.size()));
  const int64_t tokens = tokens_of(sequences);
  std::vector<Tensor> operands = {data.floats(DType::kF32, {tokens, channels}), data.floats(weights, {channels, taps}),
                                  Data::state()};
  if (bias) operands.push_back(data.floats(weights, {channels}));
  State state = fixed_state(data, (taps - 1) * dilation, channels, std::move(sequences));
  ops::Attributes own = component();
  own.set("dilation", dilation);
  cases.push_back({std::move(name), OpKind::kConv1d, own, std::move(operands), {std::move(state)}, {2e-6, 2e-6}});
}

void add_shift(std::vector<Case>& cases, std::string name, int64_t channels, Sequences sequences) {
  Data data(750 + static_cast<uint32_t>(cases.size()));
  std::vector<Tensor> operands = {data.floats(DType::kF32, {tokens_of(sequences), channels}), Data::state()};
  State state = fixed_state(data, 1, channels, std::move(sequences));
  cases.push_back({std::move(name), OpKind::kShift, component(), std::move(operands), {std::move(state)}, {0, 0}});
}

void add_recent(std::vector<Case>& cases, std::string name, int64_t window, int64_t count, Sequences sequences) {
  Data data(800 + static_cast<uint32_t>(cases.size()));
  State state;
  state.decl.name = "ids.0";
  state.decl.kind = ops::StateKind::kTokenHistory;
  state.decl.window = window;
  state.decl.components = {{"ids", 1, 1, DType::kI32}};
  state.page_rows = 4;
  state.sequences = std::move(sequences);
  std::vector<int32_t> tokens;
  state.rows.emplace_back();
  for (const Sequence& s : state.sequences) {
    std::vector<float> ids;
    for (int64_t i = 0; i < s.start_position + s.num_tokens; ++i) ids.push_back(static_cast<float>(data.below(100000)));
    for (int64_t i = s.start_position; i < s.start_position + s.num_tokens; ++i) {
      tokens.push_back(static_cast<int32_t>(ids[static_cast<size_t>(i)]));
    }
    state.rows.back().push_back(std::move(ids));
  }
  const auto total = static_cast<int64_t>(tokens.size());
  cases.push_back({std::move(name),
                   OpKind::kRecentTokens,
                   attributes("{count = " + std::to_string(count) + "}"),
                   {Data::from_ints({total}, tokens), Data::state()},
                   {std::move(state)},
                   {0, 0}});
}

}  // namespace

std::vector<Case> recurrence_cases() {
  std::vector<Case> cases;
  add_matrix_forms(cases);
  const Sequences batch = {{0, 20, 0}, {63, 1, 0}, {5, 0, 0}, {15, 3, 0}, {16, 1, 0}};
  add_dplr(cases, "batch", {3, 3, 16, 16}, batch);
  add_dplr(cases, "odd sizes", {2, 2, 7, 5}, {{0, 37, 0}, {3, 2, 0}});
  add_dplr(cases, "decode", {4, 4, 64, 64}, {{300, 1, 0}, {7, 1, 0}});
  add_selective(cases, "batch", 24, 16, batch, DType::kF32);
  add_selective(cases, "odd sizes", 37, 5, {{0, 33, 0}, {3, 2, 0}}, DType::kF32);
  add_selective(cases, "bf16 rates", 16, 8, {{4, 9, 0}}, DType::kBF16);
  add_selective(cases, "one state", 9, 1, {{0, 4, 0}}, DType::kF32);
  add_elementwise(cases, "batch", 24, batch);
  add_elementwise(cases, "odd", 301, {{0, 7, 0}, {2, 1, 0}});
  for (const DType weights : {DType::kF32, DType::kBF16}) {
    const std::string type(tensor::dtype_name(weights));
    add_conv(cases, type + " batch", 40, 4, 1, batch, weights, false);
    add_conv(cases, type + " bias", 67, 3, 1, batch, weights, true);
    add_conv(cases, type + " two taps", 9, 2, 1, {{0, 1, 0}, {4, 3, 0}}, weights, false);
    add_conv(cases, type + " dilation", 12, 3, 5, {{0, 12, 0}, {4, 3, 0}, {30, 1, 0}}, weights, true);
  }
  add_shift(cases, "batch", 40, batch);
  add_shift(cases, "wide", 600, {{0, 3, 0}, {2, 1, 0}});
  add_recent(cases, "batch", 3, 3, batch);
  add_recent(cases, "count below the window", 8, 2, {{0, 9, 0}, {1, 1, 0}, {13, 4, 0}});
  add_recent(cases, "count of one", 1, 1, {{0, 3, 0}});
  return cases;
}

}  // namespace firstlight::conformance
