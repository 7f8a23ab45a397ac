// SPDX-License-Identifier: Apache-2.0
// Numbers that may be wrong without a hypothesis that knows the right one: dials to turn, factors that are missing.
#include <cmath>
#include <set>

#include "locate/draft.h"

namespace firstlight::locate {

using ops::Attribute;
using ops::OpKind;

namespace {

bool about(double a, double b) { return std::abs(a - b) <= 1e-3 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

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
  if (node.op == OpKind::kAttend && node.attributes.get_expression("score").empty()) {
    constexpr double kUsual = 30;
    add(
        Cause::kConfig, kUsual, "a soft cap of the scores",
        [](double factor) {
          const std::string cap = number(kUsual * factor);
          auto formula = ops::Expression::parse("mul(" + cap + ", tanh(div(x0, " + cap + ")))");
          return formula.ok() ? Attribute(std::move(formula).value()) : Attribute(ops::Expression{});
        },
        "score");
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

}  // namespace firstlight::locate
