// SPDX-License-Identifier: Apache-2.0
// Attention: window, scale, sinks, scores, mask, order of heads.
#include <cmath>

#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

// A window in the operator; the state must keep as many rows.
void set_window(Draft& draft, int64_t window, int64_t now, int rank) {
  const auto text = [](int64_t value) { return value == 0 ? std::string("none") : std::to_string(value); };
  draft.add(
      Cause::kMask, "window " + text(window) + " instead of " + text(now),
      "set the window of this kind of layer to " + text(window),
      [window](ir::Graph& graph, ir::NodeId id) {
        graph.node(id).attributes.set("window", window);
        for (ir::Value& value : graph.values) {
          if (!value.type.is_state() || value.state < 0) continue;
          const ir::ValueId read = graph.node(id).operands[1];
          if (value.state != graph.value(read).state) continue;
          auto& state = graph.states[static_cast<size_t>(value.state)];
          if (state.kind != ops::StateKind::kWindowLog) continue;
          if (window == 0) state.kind = ops::StateKind::kAppendLog;
          state.window = window;
        }
        return ok_status();
      },
      rank);
}

void of_scores(Draft& draft) {
  const auto& score = draft.node.attributes.get_expression("score");
  if (!score.empty()) {
    draft.set(Cause::kConfig, "score", ops::Expression{}, "scores as they are, without " + score.to_string(), 11);
    for (auto& change : formula_changes(score, draft.formula_numbers()))
      draft.set(Cause::kConfig, "score", change.formula, "scores " + change.formula.to_string(), 24);
  }
  draft.words = "cap";
  for (const double cap : draft.numbers_with("cap")) {
    if (cap <= 0) continue;
    const std::string text = "mul(" + number(cap) + ", tanh(div(x0, " + number(cap) + ")))";
    auto formula = ops::Expression::parse(text);
    if (formula.ok() && *formula != score)
      draft.set(Cause::kConfig, "score", *formula, "scores capped softly at " + number(cap), 11);
  }
  draft.words = "window chunk";
  const auto& mask = draft.node.attributes.get_expression("mask");
  if (mask.empty()) return;
  draft.set(Cause::kMask, "mask", ops::Expression{}, "without the mask " + mask.to_string(), 13);
  for (auto& change : formula_changes(mask, draft.formula_numbers()))
    draft.set(Cause::kMask, "mask", change.formula, "mask " + change.formula.to_string(), 26);
}

// Queries share keys in turns instead of in groups, and the other way round.
void of_head_order(Draft& draft, int64_t heads) {
  for (int64_t kv = 2; kv < heads; ++kv) {
    if (heads % kv != 0) continue;
    std::vector<int64_t> turns, back(static_cast<size_t>(heads));
    for (int64_t g = 0; g < kv; ++g) {
      for (int64_t i = 0; i < heads / kv; ++i) turns.push_back(i * kv + g);
    }
    for (size_t i = 0; i < turns.size(); ++i) back[static_cast<size_t>(turns[i])] = static_cast<int64_t>(i);
    for (const auto& [in, out] : {std::pair(turns, back), std::pair(back, turns)}) {
      draft.add(
          Cause::kWeight, "heads grouped by the other order of " + std::to_string(kv) + " keys",
          "query head h reads key head h / (heads / key heads)",
          [in = in, out = out](ir::Graph& graph, ir::NodeId id) -> Status {
            FL_TRY(wrap_operand(graph, id, 0, {take_step(1, in)}));
            return wrap_result(graph, id, 0, {take_step(1, out)});
          },
          27);
    }
  }
}

}  // namespace

void of_attend(Draft& draft) {
  const int64_t window = draft.node.attributes.get_int("window");
  std::set<int64_t> windows = {0};
  for (const double value : draft.numbers_with("window")) {
    if (value >= 1 && value < 1e9) windows.insert(static_cast<int64_t>(value));
  }
  if (window > 0) windows.insert({window - 1, window + 1, window * 2, window / 2});
  for (const int64_t other : std::set<int64_t>(windows)) {
    if (other > 0) windows.insert({other - 1, other + 1});
  }
  for (const int64_t other : windows) {
    if (other != window && other >= 0) set_window(draft, other, window, other == 0 ? 10 : 11);
  }
  draft.words = "chunk";
  const int64_t chunk = draft.node.attributes.get_int("chunk");
  for (const double value : draft.numbers_with("chunk")) {
    if (static_cast<int64_t>(value) != chunk)
      draft.set(Cause::kMask, "chunk", static_cast<int64_t>(value), "chunk " + number(value), 12);
  }
  if (chunk != 0) draft.set(Cause::kMask, "chunk", int64_t{0}, "no chunks", 12);
  draft.words = "head_dim scalar multiplier";
  const double scale = draft.node.attributes.get_float("scale");
  std::set<double> seen = {scale, 1.0};
  std::vector<double> widths = {static_cast<double>(draft.last_dim(draft.node.operands[0]))};
  for (const char* word : {"head_dim", "scalar", "hidden_size"}) {
    for (const double value : draft.numbers_with(word)) widths.push_back(value);
  }
  for (const double a : draft.numbers_with("head_dim")) {
    for (const double b : draft.numbers_with("head_dim")) widths.push_back(a + b);
  }
  const double heads = draft.config_or("num_attention_heads", 1);
  widths.push_back(draft.config_or("hidden_size", 1) / std::max(heads, 1.0));
  for (const double width : widths) {
    for (const double power : {0.5, 1.0}) {
      const double value = std::pow(width, -power);
      if (width > 0 && seen.insert(value).second)
        draft.set(Cause::kConfig, "scale", value, "scale " + number(value) + " instead of " + number(scale), 14);
    }
  }
  draft.words = "sink";
  if (draft.node.operands.size() > 2)
    draft.add(
        Cause::kMask, "without sinks", "this layer has no attention sinks",
        [](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands.pop_back(), ok_status(); }, 12);
  of_scores(draft);
  const auto& shape = draft.type(draft.node.operands[0]).shape;
  if (shape.size() == 3) of_head_order(draft, shape[1].factor);
}

}  // namespace firstlight::locate
