// SPDX-License-Identifier: Apache-2.0
// Rotations: pairing, base and scaling of frequencies, rotated part, positions; and rotations that are missing.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

// YaRN (Peng et al., 2023): a ramp between the dimensions that turn beta_fast and beta_slow times.
std::vector<double> yarn(Draft& draft, std::vector<double> plain, double base, double factor, double original,
                         bool whole) {
  const auto half = static_cast<double>(plain.size());
  const auto place = [&](double turns) {
    return half * std::log(original / (turns * 2 * std::numbers::pi)) / std::log(base);
  };
  double low = place(draft.config_or("beta_fast", 32)), high = place(draft.config_or("beta_slow", 1));
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
std::vector<double> by_wave_length(Draft& draft, std::vector<double> plain, double factor, double original) {
  const double low = draft.config_or("low_freq_factor", 1), high = draft.config_or("high_freq_factor", 4);
  for (double& f : plain) {
    const double turns = original * f / (2 * std::numbers::pi);
    const double smooth = std::clamp((turns - low) / std::max(high - low, 1e-3), 0.0, 1.0);
    f = (1 - smooth) * f / factor + smooth * f;
  }
  return plain;
}

// Bases, with whatever scaling the config has numbers for.
std::vector<std::pair<std::vector<double>, std::string>> frequencies(Draft& draft, int64_t length) {
  std::vector<std::pair<std::vector<double>, std::string>> out;
  std::vector<double> bases = draft.numbers_with("theta");
  for (const double base : {1e4, 5e5, 1e6, 1e5, 1.5e5, 1e7}) bases.push_back(base);
  std::vector<double> factors = draft.numbers_with("factor");
  factors.push_back(1);
  std::vector<double> originals = draft.numbers_with("original_max");
  for (const double value : draft.numbers_with("max_position")) originals.push_back(value);
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
          out.emplace_back(yarn(draft, plain, base, factor, original, whole),
                           "base " + number(base) + ", YaRN by " + number(factor));
        }
        out.emplace_back(by_wave_length(draft, plain, factor, original),
                         "base " + number(base) + ", scaled by wave length by " + number(factor));
      }
    }
  }
  return out;
}

void of_rope_length(Draft& draft, int64_t length, int64_t width) {
  std::set<int64_t> lengths = {width, width / 2, width / 4, width * 3 / 4};
  for (const auto& word : {"partial_rotary", "rotary_pct"}) {
    for (const double share : draft.numbers_with(word))
      lengths.insert(static_cast<int64_t>(share * static_cast<double>(width)));
  }
  for (const double rotated : draft.numbers_with("rope_head_dim")) lengths.insert(static_cast<int64_t>(rotated));
  for (const int64_t other : lengths) {
    if (other < 2 || other % 2 != 0 || other > width) continue;
    for (const int64_t offset : std::set<int64_t>{0, width - other, draft.node.attributes.get_int("offset")}) {
      if (other == length && offset == draft.node.attributes.get_int("offset")) continue;
      if (offset + other > width) continue;
      for (auto& [freqs, what] : frequencies(draft, other)) {
        if (what.find(',') != std::string::npos) continue;
        draft.add(
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

void insert_rope(Draft& draft, const ops::Attributes& attributes, ir::ValueId positions, const std::string& what,
                 int rank) {
  EditStep step{.op = OpKind::kRope, .attributes = attributes, .more = {positions}};
  draft.add(
      Cause::kPosition, what, "this layer has positions",
      [step](ir::Graph& graph, ir::NodeId id) -> Status {
        const ir::NodeId keys = graph.value(graph.node(id).operands[1]).producer;
        FL_TRY(wrap_operand(graph, keys, 1, {step}));
        return wrap_operand(graph, id, 0, {step});
      },
      rank);
}

}  // namespace

void of_rope(Draft& draft) {
  const std::string style = draft.node.attributes.get_string("style");
  const std::string other = style == "half" ? "interleaved" : "half";
  draft.set(Cause::kPosition, "style", other, "pairs " + other + " instead of " + style, 10);
  const double now = draft.node.attributes.get_float("scale");
  std::set<double> seen = {now, 1.0};
  for (const double factor : draft.numbers_with("factor")) {
    if (factor <= 1) continue;
    for (const double k : {0.1, 0.1 * draft.config_or("mscale", 1), 0.1 * draft.config_or("mscale_all_dim", 1)}) {
      const double value = k * std::log(factor) + 1;
      if (seen.insert(value).second)
        draft.set(Cause::kPosition, "scale", value,
                  "scale " + number(value) + " (of the factor " + number(factor) + ")", 12);
    }
    const double longrope =
        std::sqrt(1 + std::log(factor) / std::log(std::max(2.0, draft.config_or("original_max", 4096))));
    if (seen.insert(longrope).second) draft.set(Cause::kPosition, "scale", longrope, "scale " + number(longrope), 13);
  }
  const int64_t length = draft.node.attributes.get_int("length");
  for (auto& [freqs, what] : frequencies(draft, length))
    draft.set(Cause::kPosition, "freqs", freqs, what, what.find(',') == std::string::npos ? 15 : 16);
  auto reversed = draft.node.attributes.get_floats("freqs");
  std::reverse(reversed.begin(), reversed.end());
  draft.set(Cause::kPosition, "freqs", reversed, "frequencies from the last to the first", 35);
  const int64_t width = draft.last_dim(draft.node.operands[0]);
  of_rope_length(draft, length, width);
  for (const char* shift : {"add(x0, 1)", "sub(x0, 1)"}) {
    draft.add(
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

// Attention without rotation where other layers have it.
void rope_of_others(Draft& draft) {
  if (draft.node.op != OpKind::kAttend) return;
  const ir::NodeId append = draft.graph.value(draft.node.operands[1]).producer;
  if (append < 0 || draft.graph.node(append).op != OpKind::kAppend) return;
  for (const ir::ValueId id : {draft.node.operands[0], draft.graph.node(append).operands[1]}) {
    const ir::NodeId maker = draft.graph.value(id).producer;
    if (maker < 0 || draft.graph.node(maker).op == OpKind::kRope) return;
  }
  const auto rope = std::find_if(draft.graph.nodes.begin(), draft.graph.nodes.end(),
                                 [](const ir::Node& node) { return node.op == OpKind::kRope; });
  if (rope != draft.graph.nodes.end()) {
    insert_rope(draft, rope->attributes, rope->operands[1], "queries and keys rotated as in other layers", 15);
    return;
  }
  const auto positions = std::find_if(draft.graph.body.parameters.begin(), draft.graph.body.parameters.end(),
                                      [&](ir::ValueId id) { return draft.graph.value(id).name == "positions"; });
  if (positions == draft.graph.body.parameters.end()) return;
  const int64_t width = draft.last_dim(draft.node.operands[0]);
  for (const auto& [freqs, what] : frequencies(draft, width)) {
    for (const char* style : {"half", "interleaved"}) {
      ops::Attributes attributes;
      attributes.set("freqs", freqs);
      attributes.set("length", width);
      attributes.set("style", std::string(style));
      insert_rope(draft, attributes, *positions, "queries and keys rotated, pairs " + std::string(style) + ", " + what,
                  16);
    }
  }
}

}  // namespace firstlight::locate
