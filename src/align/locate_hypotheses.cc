// SPDX-License-Identifier: Apache-2.0
#include "align/locate_hypotheses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "align/locate_edit.h"
#include "align/taps.h"
#include "compiler/weight_values.h"
#include "ir/builder.h"

namespace firstlight::align {
namespace {

using ops::Attribute;
using ops::OpKind;

// Attributes whose numbers are mistaken, the usual values, and what config keys have in their name that hold one.
struct NumberRow {
  OpKind op;
  const char* attribute;
  Cause cause;
  std::vector<double> values;
  const char* config;
};
const std::vector<NumberRow>& number_rows() {
  static const std::vector<NumberRow> rows = {
      {OpKind::kRmsNorm, "eps", Cause::kNorm, {1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2, 0}, "eps"},
      {OpKind::kLayerNorm, "eps", Cause::kNorm, {1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2, 0}, "eps"},
      {OpKind::kRmsNorm, "offset", Cause::kNorm, {0, 1}, ""},
      {OpKind::kRope, "scale", Cause::kPosition, {1}, "factor"},
      {OpKind::kAttend, "scale", Cause::kConfig, {1}, "multiplier"},
      {OpKind::kAttendSegments, "scale", Cause::kConfig, {1}, "multiplier"},
      {OpKind::kRoute, "scale", Cause::kRouting, {1}, "scal"},
  };
  return rows;
}

std::string number(double value) { return ops::exact_decimal(value); }

bool about(double a, double b) { return std::abs(a - b) <= 1e-3 * std::max(std::abs(a), std::abs(b)); }

// Keys of numbers that stand in formulas: no counts and ids.
bool stands_in_formulas(const std::string& name) {
  if (name.find("rope") != std::string::npos || name.find("rotary") != std::string::npos) return false;
  for (const char* word : {"scal", "factor", "mult", "cap", "limit", "alpha", "eps", "clip", "clamp", "hidden_size",
                           "beta", "bound", "temperature"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

class Maker {
 public:
  Maker(const ir::Graph& graph, ir::NodeId id, const Hints& hints)
      : graph_(graph), id_(id), node_(graph.node(id)), hints_(hints), weights_(compiler::weight_only_values(graph)) {
    routing_ = hints.routing.contains(id);
  }

  std::vector<Hypothesis> run() {
    const bool on_weights = !node_.results.empty() && is_weight(node_.results[0]);
    if (on_weights) {
      if (node_.op == OpKind::kDequantize) of_scales();
      return std::move(out_);
    }
    numbers_of_attributes();
    switches();
    of_tensors();
    if (node_.op == OpKind::kRope) of_rope();
    if (node_.op == OpKind::kAttend) of_attend();
    if (node_.op == OpKind::kMap) of_formula();
    if (node_.op == OpKind::kConcat) order_of_operands();
    if (node_.op == OpKind::kPerExpert) of_expert_weights();
    of_routing();
    left_out();
    inserted();
    return std::move(out_);
  }

 private:
  using Apply = std::function<Status(ir::Graph&, ir::NodeId)>;

  Cause here(Cause usual) const { return routing_ ? Cause::kRouting : usual; }

  Hypothesis& add(Cause cause, std::string what, std::string fix, Apply apply, int rank) {
    out_.push_back({.cause = cause,
                    .what = std::move(what),
                    .fix = std::move(fix),
                    .of_weights = false,
                    .rank = rank,
                    .apply = std::move(apply)});
    return out_.back();
  }

  void set(Cause cause, const std::string& name, const Attribute& value, const std::string& what, int rank) {
    add(
        cause, what, "in the spec, or in config.json where it reads it: " + what,
        [name, value](ir::Graph& graph, ir::NodeId id) {
          graph.node(id).attributes.set(name, value);
          return ok_status();
        },
        rank);
  }

  // A weight of the experts, before it multiplies.
  void of_expert_weights() {
    const auto before = [](std::vector<EditStep> steps) {
      return [steps = std::move(steps)](ir::Graph& graph, ir::NodeId id) { return wrap_operand(graph, id, 2, steps); };
    };
    add(
        Cause::kRouting, "experts' weights divided by their sum", "normalise the chosen experts' weights",
        [](ir::Graph& graph, ir::NodeId id) -> Status {
          FL_TRY(wrap_operand(graph, id, 2, {map_step("x0")}));
          return divide_by_sum(graph, graph.value(graph.node(id).operands[2]).producer);
        },
        12);
    add(Cause::kRouting, "softmax of the experts' weights", "the score function of the router",
        before({{.op = OpKind::kSoftmax, .attributes = {}}}), 13);
    for (const double factor : numbers_with("scal")) {
      add(Cause::kRouting, "experts' weights times " + number(factor), "scale the experts' weights",
          before({map_step("mul(x0, " + number(factor) + ")")}), 13);
    }
  }

  bool is_weight(ir::ValueId id) const {
    const ir::Value& value = graph_.value(id);
    return value.kind == ir::Value::Kind::kWeight || weights_[static_cast<size_t>(id)];
  }

  const tensor::Type& type(ir::ValueId id) const { return graph_.value(id).type; }
  int64_t last_dim(ir::ValueId id) const {
    const auto& shape = type(id).shape;
    return shape.empty() ? 1 : shape.back().factor;
  }

  std::vector<double> numbers_with(std::string_view word) const {
    std::vector<double> numbers;
    for (const auto& [name, value] : hints_.config) {
      if (!word.empty() && name.find(word) != std::string::npos) numbers.push_back(value);
    }
    return numbers;
  }

  std::vector<double> formula_numbers() const {
    std::set<double> numbers;
    for (const auto& [name, value] : hints_.config) {
      if (!stands_in_formulas(name) || value == 0) continue;
      numbers.insert(value);
      if (name.find("hidden_size") != std::string::npos) numbers.insert(std::sqrt(value));
      if (value > 0 && value != 1) numbers.insert(1 / value);
    }
    return {numbers.begin(), numbers.end()};
  }

  void numbers_of_attributes() {
    for (const NumberRow& row : number_rows()) {
      if (row.op != node_.op || !node_.attributes.has(row.attribute)) continue;
      const double now = node_.attributes.get_float(row.attribute);
      std::vector<double> values = numbers_with(row.config);
      values.insert(values.end(), row.values.begin(), row.values.end());
      std::set<double> seen = {now};
      int rank = 10;
      for (const double value : values) {
        if (!seen.insert(value).second) continue;
        set(row.cause, row.attribute, value,
            std::string(row.attribute) + " " + number(value) + " instead of " + number(now), rank++);
      }
    }
  }

  // Every switch the other way.
  void switches() {
    for (const auto& [name, value] : node_.attributes.all()) {
      if (!std::holds_alternative<bool>(value) || name == "keep") continue;
      const bool now = std::get<bool>(value);
      const Cause cause = name == "causal"    ? Cause::kMask
                          : name == "inverse" ? Cause::kPosition
                                              : usual_cause(graph_, id_, hints_.routing);
      set(cause, name, !now, name + (now ? " off" : " on"), 30);
    }
    if (node_.op == OpKind::kReduce) {
      for (const char* op : {"sum", "mean", "max"}) {
        if (node_.attributes.get_string("op") != op)
          set(here(Cause::kConfig), "op", std::string(op), "reduced by " + std::string(op), 40);
      }
    }
  }

  // Bases, with whatever scaling the config has numbers for.
  std::vector<std::pair<std::vector<double>, std::string>> frequencies(int64_t length) const {
    std::vector<std::pair<std::vector<double>, std::string>> out;
    std::vector<double> bases = numbers_with("theta");
    for (const double base : {1e4, 5e5, 1e6, 1e5, 1.5e5, 1e7}) bases.push_back(base);
    std::vector<double> factors = numbers_with("factor");
    factors.push_back(1);
    std::vector<double> originals = numbers_with("original_max");
    for (const double value : numbers_with("max_position")) originals.push_back(value);
    for (const double base : std::set<double>(bases.begin(), bases.end())) {
      if (base <= 1) continue;
      std::vector<double> plain;
      for (int64_t i = 0; i < length / 2; ++i)
        plain.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(length)));
      out.emplace_back(plain, "base " + number(base));
      for (const double factor : std::set<double>(factors.begin(), factors.end())) {
        if (factor <= 1) continue;
        auto scaled = plain;
        for (double& f : scaled) f /= factor;
        out.emplace_back(scaled, "base " + number(base) + ", divided by " + number(factor));
        for (const double original : std::set<double>(originals.begin(), originals.end())) {
          for (const bool whole : {true, false}) {
            out.emplace_back(yarn(plain, base, factor, original, whole),
                             "base " + number(base) + ", YaRN by " + number(factor));
          }
          out.emplace_back(by_wave_length(plain, factor, original),
                           "base " + number(base) + ", scaled by wave length by " + number(factor));
        }
      }
    }
    return out;
  }

  double config_or(std::string_view word, double fallback) const {
    const auto numbers = numbers_with(word);
    return numbers.empty() ? fallback : numbers[0];
  }

  // YaRN (Peng et al., 2023): a ramp between the dimensions that turn beta_fast and beta_slow times.
  std::vector<double> yarn(std::vector<double> plain, double base, double factor, double original, bool whole) const {
    const auto half = static_cast<double>(plain.size());
    const auto place = [&](double turns) {
      return half * std::log(original / (turns * 2 * std::numbers::pi)) / std::log(base);
    };
    double low = place(config_or("beta_fast", 32)), high = place(config_or("beta_slow", 1));
    if (whole) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, 2 * half - 1);
    for (size_t i = 0; i < plain.size(); ++i) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
      plain[i] = plain[i] / factor * ramp + plain[i] * (1 - ramp);
    }
    return plain;
  }

  // Llama 3.1's scaling: long waves divided, short ones kept, a ramp in between.
  std::vector<double> by_wave_length(std::vector<double> plain, double factor, double original) const {
    const double low = config_or("low_freq_factor", 1), high = config_or("high_freq_factor", 4);
    for (double& f : plain) {
      const double turns = original * f / (2 * std::numbers::pi);
      const double smooth = std::clamp((turns - low) / std::max(high - low, 1e-3), 0.0, 1.0);
      f = (1 - smooth) * f / factor + smooth * f;
    }
    return plain;
  }

  void of_rope() {
    const std::string style = node_.attributes.get_string("style");
    const std::string other = style == "half" ? "interleaved" : "half";
    set(Cause::kPosition, "style", other, "pairs " + other + " instead of " + style, 10);
    const double now = node_.attributes.get_float("scale");
    std::set<double> seen = {now, 1.0};
    for (const double factor : numbers_with("factor")) {
      if (factor <= 1) continue;
      for (const double k : {0.1, 0.1 * config_or("mscale", 1), 0.1 * config_or("mscale_all_dim", 1)}) {
        const double value = k * std::log(factor) + 1;
        if (seen.insert(value).second)
          set(Cause::kPosition, "scale", value, "scale " + number(value) + " (of the factor " + number(factor) + ")",
              12);
      }
      const double longrope =
          std::sqrt(1 + std::log(factor) / std::log(std::max(2.0, config_or("original_max", 4096))));
      if (seen.insert(longrope).second) set(Cause::kPosition, "scale", longrope, "scale " + number(longrope), 13);
    }
    const int64_t length = node_.attributes.get_int("length");
    for (auto& [freqs, what] : frequencies(length))
      set(Cause::kPosition, "freqs", freqs, what, what.find(',') == std::string::npos ? 15 : 16);
    auto reversed = node_.attributes.get_floats("freqs");
    std::reverse(reversed.begin(), reversed.end());
    set(Cause::kPosition, "freqs", reversed, "frequencies from the last to the first", 35);
    const int64_t width = last_dim(node_.operands[0]);
    of_rope_length(length, width);
    for (const char* shift : {"add(x0, 1)", "sub(x0, 1)"}) {
      add(
          Cause::kPosition, std::string("positions ") + (shift[0] == 'a' ? "one later" : "one earlier"),
          "count positions from 0",
          [shift](ir::Graph& graph, ir::NodeId id) -> Status {
            EditStep step{.op = OpKind::kImap, .attributes = {}};
            step.attributes.set("expr", FL_TRY(ops::Expression::parse(shift)));
            step.attributes.set("to", std::string("i32"));
            return wrap_operand(graph, id, 1, {step});
          },
          25);
    }
  }

  void of_rope_length(int64_t length, int64_t width) {
    std::set<int64_t> lengths = {width, width / 2, width / 4, width * 3 / 4};
    for (const auto& word : {"partial_rotary", "rotary_pct"}) {
      for (const double share : numbers_with(word))
        lengths.insert(static_cast<int64_t>(share * static_cast<double>(width)));
    }
    for (const double rotated : numbers_with("rope_head_dim")) lengths.insert(static_cast<int64_t>(rotated));
    for (const int64_t other : lengths) {
      if (other < 2 || other % 2 != 0 || other > width) continue;
      for (const int64_t offset : std::set<int64_t>{0, width - other, node_.attributes.get_int("offset")}) {
        if (other == length && offset == node_.attributes.get_int("offset")) continue;
        if (offset + other > width) continue;
        for (auto& [freqs, what] : frequencies(other)) {
          if (what.find(',') != std::string::npos) continue;
          add(
              Cause::kPosition,
              std::to_string(other) + " elements from " + std::to_string(offset) + " on rotated instead of " +
                  std::to_string(length) + ", " + what,
              "look at the rotated part of a head",
              [other, offset, freqs = freqs](ir::Graph& graph, ir::NodeId id) {
                auto& attributes = graph.node(id).attributes;
                attributes.set("length", other);
                attributes.set("offset", offset);
                attributes.set("freqs", freqs);
                return ok_status();
              },
              28);
        }
      }
    }
  }

  // A window in the operator; the state must keep as many rows.
  void set_window(int64_t window, int64_t now, int rank) {
    const auto text = [](int64_t value) { return value == 0 ? std::string("none") : std::to_string(value); };
    add(
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

  void of_attend() {
    const int64_t window = node_.attributes.get_int("window");
    std::set<int64_t> windows = {0};
    for (const double value : numbers_with("window")) {
      if (value >= 1 && value < 1e9) windows.insert(static_cast<int64_t>(value));
    }
    if (window > 0) windows.insert({window - 1, window + 1, window * 2, window / 2});
    for (const int64_t other : std::set<int64_t>(windows)) {
      if (other > 0) windows.insert({other - 1, other + 1});
    }
    for (const int64_t other : windows) {
      if (other != window && other >= 0) set_window(other, window, other == 0 ? 10 : 11);
    }
    const int64_t chunk = node_.attributes.get_int("chunk");
    for (const double value : numbers_with("chunk")) {
      if (static_cast<int64_t>(value) != chunk)
        set(Cause::kMask, "chunk", static_cast<int64_t>(value), "chunk " + number(value), 12);
    }
    if (chunk != 0) set(Cause::kMask, "chunk", int64_t{0}, "no chunks", 12);
    const double scale = node_.attributes.get_float("scale");
    std::set<double> seen = {scale, 1.0};
    std::vector<double> widths = {static_cast<double>(last_dim(node_.operands[0]))};
    for (const char* word : {"head_dim", "scalar", "hidden_size"}) {
      for (const double value : numbers_with(word)) widths.push_back(value);
    }
    for (const double a : numbers_with("head_dim")) {
      for (const double b : numbers_with("head_dim")) widths.push_back(a + b);
    }
    const double heads = config_or("num_attention_heads", 1);
    widths.push_back(config_or("hidden_size", 1) / std::max(heads, 1.0));
    for (const double width : widths) {
      for (const double power : {0.5, 1.0}) {
        const double value = std::pow(width, -power);
        if (width > 0 && seen.insert(value).second)
          set(Cause::kConfig, "scale", value, "scale " + number(value) + " instead of " + number(scale), 14);
      }
    }
    if (node_.operands.size() > 2)
      add(
          Cause::kMask, "without sinks", "this layer has no attention sinks",
          [](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands.pop_back(), ok_status(); }, 12);
    of_scores();
    const auto& shape = type(node_.operands[0]).shape;
    if (shape.size() == 3) of_head_order(shape[1].factor);
  }

  void of_scores() {
    const auto& score = node_.attributes.get_expression("score");
    if (!score.empty()) {
      set(Cause::kConfig, "score", ops::Expression{}, "scores as they are, without " + score.to_string(), 11);
      for (auto& change : formula_changes(score, formula_numbers()))
        set(Cause::kConfig, "score", change.formula, "scores " + change.formula.to_string(), 24);
    }
    for (const double cap : numbers_with("cap")) {
      if (cap <= 0) continue;
      const std::string text = "mul(" + number(cap) + ", tanh(div(x0, " + number(cap) + ")))";
      auto formula = ops::Expression::parse(text);
      if (formula.ok() && *formula != score)
        set(Cause::kConfig, "score", *formula, "scores capped softly at " + number(cap), 11);
    }
    const auto& mask = node_.attributes.get_expression("mask");
    if (mask.empty()) return;
    set(Cause::kMask, "mask", ops::Expression{}, "without the mask " + mask.to_string(), 13);
    for (auto& change : formula_changes(mask, formula_numbers()))
      set(Cause::kMask, "mask", change.formula, "mask " + change.formula.to_string(), 26);
  }

  // Queries share keys in turns instead of in groups, and the other way round.
  void of_head_order(int64_t heads) {
    for (int64_t kv = 2; kv < heads; ++kv) {
      if (heads % kv != 0) continue;
      std::vector<int64_t> turns, back(static_cast<size_t>(heads));
      for (int64_t g = 0; g < kv; ++g) {
        for (int64_t i = 0; i < heads / kv; ++i) turns.push_back(i * kv + g);
      }
      for (size_t i = 0; i < turns.size(); ++i) back[static_cast<size_t>(turns[i])] = static_cast<int64_t>(i);
      for (const auto& [in, out] : {std::pair(turns, back), std::pair(back, turns)}) {
        add(
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

  void of_formula() {
    const auto& formula = node_.attributes.get_expression("expr");
    for (auto& change : formula_changes(formula, formula_numbers())) {
      set(here(Cause::kConfig), "expr", change.formula,
          change.what + " instead of " + change.instead + " in " + formula.to_string(), 20);
    }
    if (node_.operands.size() == 2 && type(node_.operands[0]) == type(node_.operands[1])) {
      add(
          Cause::kWeight, "operands of " + formula.to_string() + " exchanged", "two halves or projections are swapped",
          [](ir::Graph& graph, ir::NodeId id) {
            std::swap(graph.node(id).operands[0], graph.node(id).operands[1]);
            return ok_status();
          },
          21);
    }
  }

  void order_of_operands() {
    add(
        Cause::kWeight, "parts joined in the other order", "two halves are swapped",
        [](ir::Graph& graph, ir::NodeId id) {
          auto& operands = graph.node(id).operands;
          std::reverse(operands.begin(), operands.end());
          return ok_status();
        },
        30);
  }

  void tensor_step(size_t k, const std::string& what, const std::string& fix, std::vector<EditStep> steps, int rank) {
    add(
        Cause::kWeight, what, fix,
        [k, steps = std::move(steps)](ir::Graph& graph, ir::NodeId id) { return wrap_operand(graph, id, k, steps); },
        rank)
        .of_weights = true;
  }

  static std::vector<int64_t> halves(int64_t n) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i) order.push_back((i + n / 2) % n);
    return order;
  }
  // Rows 0, 2, 4, … then 1, 3, 5, … of every block; and back.
  static std::vector<int64_t> evens_first(int64_t n, int64_t block) {
    std::vector<int64_t> order;
    for (int64_t b = 0; b < n; b += block) {
      for (int64_t i = 0; i < block; i += 2) order.push_back(b + i);
      for (int64_t i = 1; i < block; i += 2) order.push_back(b + i);
    }
    return order;
  }
  static std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return back;
  }

  void of_tensors() {
    for (size_t k = 0; k < node_.operands.size(); ++k) {
      const ir::ValueId value = node_.operands[k];
      if (!is_weight(value) || type(value).is_state()) continue;
      const auto& shape = type(value).shape;
      const bool is_matrix = shape.size() >= 2;
      other_tensors(k, value);
      if (is_matrix && node_.op != OpKind::kGatherRows) orders(k, value);
      if (!is_matrix) {
        const auto def = ops::op_def(node_.op).operands;
        const bool last = k + 1 == node_.operands.size();
        if (last && k < def.size() && def[k].arity == ops::OperandDef::Arity::kOptional &&
            node_.op != OpKind::kAttend) {
          add(
              k == 1 ? Cause::kNorm : Cause::kWeight, std::string("without its ") + std::string(def[k].name),
              "the tensor does not belong here",
              [](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands.pop_back(), ok_status(); }, 22)
              .of_weights = true;
        }
      }
    }
    unused_tensors();
  }

  void orders(size_t k, ir::ValueId value) {
    const auto& shape = type(value).shape;
    const auto f32 = cast_step("f32");
    const auto rank = static_cast<int64_t>(shape.size());
    for (const int64_t axis : {rank - 2, rank - 1}) {
      const int64_t n = shape[static_cast<size_t>(axis)].factor;
      const std::string side = axis == rank - 1 ? "columns" : "rows";
      if (n % 2 != 0) continue;
      tensor_step(k, "halves of its " + side + " swapped", "two parts of the tensor are exchanged",
                  {f32, take_step(axis, halves(n))}, 17);
      for (const int64_t block : blocks(n)) {
        const auto order = evens_first(n, block);
        const std::string of = block == n ? "" : " of every " + std::to_string(block);
        tensor_step(k, "even " + side + " first" + of, "interleaved where halves are wanted: a layout of other files",
                    {f32, take_step(axis, order)}, block == n ? 18 : 19);
        tensor_step(k, side + " in turns from both halves" + of, "halves where interleaved is wanted",
                    {f32, take_step(axis, inverse(order))}, block == n ? 18 : 19);
      }
      for (const int64_t heads : {2, 4, 8}) {
        if (n % heads != 0 || n / heads < 2) continue;
        std::vector<int64_t> back;
        for (int64_t h = heads - 1; h >= 0; --h) {
          for (int64_t i = 0; i < n / heads; ++i) back.push_back(h * (n / heads) + i);
        }
        tensor_step(k, std::to_string(heads) + " heads of its " + side + " from the last to the first",
                    "heads are in another order", {f32, take_step(axis, back)}, 29);
      }
    }
    if (shape[static_cast<size_t>(rank - 1)] == shape[static_cast<size_t>(rank - 2)]) {
      EditStep step{.op = OpKind::kTranspose, .attributes = {}};
      std::vector<int64_t> perm(static_cast<size_t>(rank));
      std::iota(perm.begin(), perm.end(), 0);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      step.attributes.set("perm", perm);
      tensor_step(k, "transposed", "the file has the matrix as [in, out]", {f32, step}, 15);
    }
  }

  std::set<int64_t> blocks(int64_t n) const {
    std::set<int64_t> out = {n};
    for (const double heads : {config_or("num_attention_heads", 1), config_or("num_key_value_heads", 1)}) {
      const auto count = static_cast<int64_t>(heads);
      if (count > 0 && n % count == 0 && (n / count) % 2 == 0 && n / count > 2) out.insert(n / count);
    }
    for (const double width : numbers_with("head_dim")) {
      const auto block = static_cast<int64_t>(width);
      if (block > 2 && block % 2 == 0 && n % block == 0) out.insert(block);
    }
    return out;
  }

  // Of another layer, or another tensor of this one, with the same type.
  void other_tensors(size_t k, ir::ValueId value) {
    const std::string own = graph_.value(value).name;
    if (own.empty()) {
      other_computed(k, value);
      return;
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const ir::Value& other = graph_.values[i];
      if (other.kind != ir::Value::Kind::kWeight || other.name == own || other.type.shape != type(value).shape)
        continue;
      const bool same_layer = layer_prefix(other.name) == layer_prefix(own);
      const bool same_module = without_digits(other.name) == without_digits(own);
      if (!same_layer && !same_module) continue;
      replace(k, static_cast<ir::ValueId>(i), other.name, own, same_module ? 16 : 17);
    }
  }

  void other_computed(size_t k, ir::ValueId value) {
    for (size_t j = 0; j < node_.operands.size(); ++j) {
      const ir::ValueId other = node_.operands[j];
      if (j == k || other == value || j < k || !is_weight(other) || type(other) != type(value)) continue;
      add(
          Cause::kWeight, "two of its tensors exchanged", "gate and up (or the like) are swapped",
          [j, k](ir::Graph& graph, ir::NodeId id) {
            std::swap(graph.node(id).operands[j], graph.node(id).operands[k]);
            return ok_status();
          },
          17)
          .of_weights = true;
    }
  }

  void replace(size_t k, ir::ValueId other, const std::string& name, const std::string& own, int rank) {
    add(
        Cause::kWeight, name + " instead of " + own, "the tensor has the contents of another one",
        [k, other](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands[k] = other, ok_status(); }, rank)
        .of_weights = true;
  }

  static std::string layer_prefix(const std::string& name) {
    size_t dots = 0;
    for (size_t i = 0; i < name.size(); ++i) {
      if (name[i] == '.' && ++dots == 3) return name.substr(0, i);
    }
    return "";
  }
  static std::string without_digits(std::string name) {
    std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
    return name;
  }

  // A tensor of the checkpoint that the graph does not read: bias, sinks, weight of a norm.
  void unused_tensors() {
    if (hints_.checkpoint == nullptr) return;
    const auto def = ops::op_def(node_.op).operands;
    const size_t next = node_.operands.size();
    if (next >= def.size() || def[next].arity != ops::OperandDef::Arity::kOptional) return;
    const int64_t wanted =
        node_.op == OpKind::kAttend ? type(node_.operands[0]).shape[1].factor : last_dim(node_.results[0]);
    std::string folder = node_.scope;
    for (const ir::ValueId id : node_.operands) {
      const std::string& name = graph_.value(id).name;
      if (graph_.value(id).kind == ir::Value::Kind::kWeight && name.rfind('.') != std::string::npos)
        folder = name.substr(0, name.rfind('.'));
    }
    for (const auto& [name, record] : hints_.checkpoint->tensors()) {
      if (!name.starts_with(folder + ".") || graph_.weight_sources.contains(name) || !record.dtype) continue;
      if (record.shape != std::vector<int64_t>{wanted}) continue;
      tensor::Type of = tensor::Type::tensor(*record.dtype, {tensor::Dim(wanted)});
      add(
          node_.op == OpKind::kAttend ? Cause::kMask : Cause::kWeight, "with " + name + ", which nothing reads",
          "the spec leaves this tensor out",
          [name = name, of](ir::Graph& graph, ir::NodeId id) {
            const ir::ValueId value = ir::Builder(graph).add_weight(name, of, name);
            graph.node(id).operands.push_back(value);
            return ok_status();
          },
          9);
    }
  }

  void of_scales() {
    const auto& shape = type(node_.operands[1]).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t n = shape[axis].factor;
      if (n < 2) continue;
      for (const int64_t by : {int64_t{1}, n - 1}) {
        std::vector<int64_t> order;
        for (int64_t i = 0; i < n; ++i) order.push_back((i + by) % n);
        tensor_step(1, "scales moved by one block along axis " + std::to_string(axis), "scales belong to other blocks",
                    {cast_step("f32"), take_step(static_cast<int64_t>(axis), order)}, 12);
      }
    }
    tensor_step(1, "scales inverted", "the file has the reciprocal", {cast_step("f32"), map_step("div(1.0, x0)")}, 14);
  }

  void of_routing() {
    if (!routing_) return;
    if (node_.op == OpKind::kSoftmax) {
      add(
          Cause::kRouting, "sigmoid instead of softmax", "the score function of the router",
          [](ir::Graph& graph, ir::NodeId id) {
            EditStep step = map_step("sigmoid(x0)");
            graph.node(id).op = step.op;
            graph.node(id).attributes = step.attributes;
            return ok_status();
          },
          10);
    }
    if (node_.op == OpKind::kMap && node_.operands.size() == 1) {
      add(
          Cause::kRouting, "softmax instead of " + node_.attributes.get_expression("expr").to_string(),
          "the score function of the router",
          [](ir::Graph& graph, ir::NodeId id) {
            graph.node(id).op = OpKind::kSoftmax;
            graph.node(id).attributes = {};
            return ok_status();
          },
          10);
    }
    const bool weights = type(node_.results[0]).dtype == tensor::DType::kF32;
    if (weights) {
      add(Cause::kRouting, "weights divided by their sum", "normalise the chosen experts' weights", divide_by_sum, 12);
      add(
          Cause::kRouting, "softmax of the result", "the score function of the router",
          [](ir::Graph& graph, ir::NodeId id) {
            return wrap_result(graph, id, 0, {{.op = OpKind::kSoftmax, .attributes = {}}});
          },
          13);
      add(
          Cause::kRouting, "rounded to bfloat16", "the router's logits are kept in bfloat16",
          [](ir::Graph& graph, ir::NodeId id) {
            return wrap_result(graph, id, 0, {cast_step("bf16"), cast_step("f32")});
          },
          33);
    }
    if (node_.op == OpKind::kGatherLast || node_.op == OpKind::kTopK) rewired();
  }

  static Status divide_by_sum(ir::Graph& graph, ir::NodeId id) {
    const ir::ValueId value = graph.node(id).results[0];
    FL_TRY(wrap_result(graph, id, 0, {map_step("x0")}));
    const ir::NodeId last = graph.value(value).producer;
    const ir::ValueId before = graph.node(last).operands[0];
    EditStep sum{.op = OpKind::kReduce, .attributes = {}};
    sum.attributes.set("op", std::string("sum"));
    sum.attributes.set("axis", int64_t{-1});
    sum.attributes.set("keep", true);
    FL_TRY(wrap_operand(graph, last, 0, {sum}));
    const ir::ValueId total = graph.node(last).operands[0];
    EditStep divide = map_step("div(x0, x1)");
    graph.node(last).operands = {before, total};
    graph.node(last).attributes = divide.attributes;
    return ok_status();
  }

  // Scores with the correction in them, or without.
  void rewired() {
    for (const ir::NodeId other : hints_.routing) {
      for (const ir::ValueId value : graph_.node(other).results) {
        if (value == node_.operands[0] || type(value) != type(node_.operands[0])) continue;
        if (graph_.node(other).scope != node_.scope || other == id_) continue;
        add(
            Cause::kRouting, "of the result of another " + std::string(ops::op_name(graph_.node(other).op)),
            "choice and weights take scores with or without the correction bias",
            [value](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands[0] = value, ok_status(); }, 14);
      }
    }
  }

  // The node should not be there.
  void left_out() {
    for (size_t k = 0; k < node_.operands.size() && k < 3; ++k) {
      if (node_.results.size() != 1 || type(node_.operands[k]) != type(node_.results[0])) continue;
      if (node_.op == OpKind::kMap && node_.operands.size() == 1 && k > 0) continue;
      const Cause cause = here(node_.op == OpKind::kRope ? Cause::kPosition : usual_cause(graph_, id_, hints_.routing));
      add(
          cause, "without this " + std::string(ops::op_name(node_.op)), "leave the step out",
          [k](ir::Graph& graph, ir::NodeId id) { return become_identity(graph, id, k); }, 23);
    }
  }

  // A step that is missing, behind this one or before it.
  void inserted() {
    if (node_.results.empty() || type(node_.results[0]).dtype != tensor::DType::kF32 ||
        type(node_.results[0]).is_state())
      return;
    std::set<double> limits;
    for (const char* word : {"limit", "clip", "clamp"}) {
      for (const double value : numbers_with(word)) limits.insert(value);
    }
    for (const double c : limits) {
      if (c <= 0) continue;
      for (const char* form : {"max(min(x0, C), -C)", "min(x0, C)"}) {
        std::string text = form;
        for (size_t at = text.find('C'); at != std::string::npos; at = text.find('C')) text.replace(at, 1, number(c));
        insert("clamped: " + text, text, 26);
        if (node_.op != OpKind::kMap) continue;
        for (size_t k = 0; k < node_.operands.size(); ++k) insert_before(k, "clamped operand: " + text, text, 25);
      }
    }
    for (const double c : numbers_with("cap")) {
      if (c > 0)
        insert("capped softly at " + number(c), "mul(" + number(c) + ", tanh(div(x0, " + number(c) + ")))", 26);
    }
    if (node_.op != OpKind::kMap) insert("negated", "neg(x0)", 34);
    rope_of_others();
  }

  void insert(const std::string& what, const std::string& text, int rank) {
    add(
        here(Cause::kConfig), what, "the spec lacks this step: " + text,
        [text](ir::Graph& graph, ir::NodeId id) { return wrap_result(graph, id, 0, {map_step(text)}); }, rank);
  }
  void insert_before(size_t k, const std::string& what, const std::string& text, int rank) {
    add(
        here(Cause::kConfig), what, "the spec lacks this step: " + text,
        [k, text](ir::Graph& graph, ir::NodeId id) { return wrap_operand(graph, id, k, {map_step(text)}); }, rank);
  }

  // Attention without rotation where other layers have it.
  void rope_of_others() {
    if (node_.op != OpKind::kAttend) return;
    const ir::NodeId append = graph_.value(node_.operands[1]).producer;
    if (append < 0 || graph_.node(append).op != OpKind::kAppend) return;
    for (const ir::ValueId id : {node_.operands[0], graph_.node(append).operands[1]}) {
      const ir::NodeId maker = graph_.value(id).producer;
      if (maker < 0 || graph_.node(maker).op == OpKind::kRope) return;
    }
    const auto rope = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                   [](const ir::Node& node) { return node.op == OpKind::kRope; });
    if (rope != graph_.nodes.end()) {
      insert_rope(rope->attributes, rope->operands[1], "queries and keys rotated as in other layers", 15);
      return;
    }
    const auto positions = std::find_if(graph_.body.parameters.begin(), graph_.body.parameters.end(),
                                        [&](ir::ValueId id) { return graph_.value(id).name == "positions"; });
    if (positions == graph_.body.parameters.end()) return;
    const int64_t width = last_dim(node_.operands[0]);
    for (const auto& [freqs, what] : frequencies(width)) {
      for (const char* style : {"half", "interleaved"}) {
        ops::Attributes attributes;
        attributes.set("freqs", freqs);
        attributes.set("length", width);
        attributes.set("style", std::string(style));
        insert_rope(attributes, *positions, "queries and keys rotated, pairs " + std::string(style) + ", " + what, 16);
      }
    }
  }

  void insert_rope(const ops::Attributes& attributes, ir::ValueId positions, const std::string& what, int rank) {
    EditStep step{.op = OpKind::kRope, .attributes = attributes, .more = {positions}};
    add(
        Cause::kPosition, what, "this layer has positions",
        [step](ir::Graph& graph, ir::NodeId id) -> Status {
          const ir::NodeId keys = graph.value(graph.node(id).operands[1]).producer;
          FL_TRY(wrap_operand(graph, keys, 1, {step}));
          return wrap_operand(graph, id, 0, {step});
        },
        rank);
  }

  const ir::Graph& graph_;
  ir::NodeId id_;
  const ir::Node& node_;
  const Hints& hints_;
  std::vector<bool> weights_;
  bool routing_ = false;
  std::vector<Hypothesis> out_;
};

}  // namespace

std::vector<Hypothesis> hypotheses(const ir::Graph& graph, ir::NodeId id, const Hints& hints) {
  return Maker(graph, id, hints).run();
}

std::string config_name(double value, const Hints& hints) {
  for (const auto& [name, known] : hints.config) {
    if (known == 0 || known == 1 || !stands_in_formulas(name)) continue;
    if (about(value, known)) return name;
    if (about(value, 1 / known)) return "1 / " + name;
  }
  for (const auto& [name, known] : hints.config) {
    if (known <= 1 || name.find("hidden_size") == std::string::npos) continue;
    if (about(value, std::sqrt(known))) return "the root of " + name;
    if (about(value, 1 / std::sqrt(known))) return "1 / the root of " + name;
  }
  return "";
}

std::vector<Dial> dials(const ir::Graph& graph, ir::NodeId id, const Hints& hints) {
  std::vector<Dial> out;
  const ir::Node& node = graph.node(id);
  const Cause config = hints.routing.contains(id) ? Cause::kRouting : Cause::kConfig;
  const auto add = [&](Cause cause, double now, const std::string& name, std::function<Attribute(double)> value,
                       const std::string& attribute) {
    out.push_back({.now = now, .name = name, .with = [=](double factor) {
                     return Hypothesis{.cause = cause,
                                       .what = name + " about " + number(now * factor) + " instead of " + number(now),
                                       .fix = "look for the place that " + name + " comes from",
                                       .of_weights = false,
                                       .rank = 40,
                                       .apply = [=](ir::Graph& changed, ir::NodeId at) {
                                         changed.node(at).attributes.set(attribute, value(factor));
                                         return ok_status();
                                       }};
                   }});
  };
  for (const NumberRow& row : number_rows()) {
    if (row.op != node.op || !node.attributes.has(row.attribute)) continue;
    const double now = node.attributes.get_float(row.attribute);
    if (now > 0)
      add(
          row.cause, now, row.attribute, [now](double factor) { return Attribute(now * factor); }, row.attribute);
  }
  for (const char* attribute : {"expr", "score"}) {
    const Attribute* found = node.attributes.find(attribute);
    if (found == nullptr || !std::holds_alternative<ops::Expression>(*found)) continue;
    const auto& formula = std::get<ops::Expression>(*found);
    std::set<double> seen;
    for (const ops::ExprTerm& term : formula.terms()) {
      const double now = std::abs(term.constant);
      if (term.op != ops::ExprOp::kConstant || now == 0 || now == 1 || now > 1e30 || !seen.insert(now).second) continue;
      add(
          config, now, "the number in " + formula.to_string(),
          [formula, now](double factor) { return Attribute(with_numbers_scaled(formula, now, factor)); }, attribute);
    }
  }
  if (node.op == OpKind::kRope) {
    // f_i = base^(-2i/n): another base is a power of each.
    const auto freqs = node.attributes.get_floats("freqs");
    const double step = freqs.size() > 1 && freqs[1] > 0 ? freqs[0] / freqs[1] : 1;
    const double base = std::pow(step, static_cast<double>(freqs.size()));
    if (base > 1) {
      add(
          Cause::kPosition, base, "base",
          [freqs, base](double factor) {
            const double power = std::log(std::max(base * factor, 1.01)) / std::log(base);
            std::vector<double> other;
            for (const double f : freqs) other.push_back(std::pow(f, power));
            return Attribute(other);
          },
          "freqs");
    }
  }
  return out;
}

Hypothesis missing_factor(double factor, const Hints& hints, const ir::Graph& graph, ir::NodeId maker) {
  const std::string from = config_name(factor, hints);
  const bool routing = hints.routing.contains(maker) || from.find("rout") != std::string::npos;
  return {.cause = routing        ? Cause::kRouting
                   : from.empty() ? usual_cause(graph, maker, hints.routing)
                                  : Cause::kConfig,
          .what = "a factor of " + number(factor) + (from.empty() ? "" : " (" + from + ")") + " is missing",
          .fix = "multiply by " + (from.empty() ? number(factor) : from),
          .of_weights = false,
          .rank = from.empty() ? 45 : 22,
          .apply = [factor](ir::Graph& changed, ir::NodeId id) {
            return wrap_result(changed, id, 0, {map_step("mul(x0, " + number(factor) + ")")});
          }};
}

}  // namespace firstlight::align
