// SPDX-License-Identifier: Apache-2.0
#include "locate/edit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "align/taps.h"
#include "ir/builder.h"

namespace firstlight::locate {
namespace {

using ops::Expression;
using ops::ExprOp;
using ops::ExprTerm;

ir::Region* region_with(ir::Graph& graph, ir::NodeId id) {
  ir::Region* found = nullptr;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (std::find(region.nodes.begin(), region.nodes.end(), id) != region.nodes.end()) found = &region;
  });
  return found;
}

// Nodes of `steps` one after the other from `value` on; not placed yet.
Result<std::vector<ir::NodeId>> chain(ir::Graph& graph, ir::ValueId value, const std::vector<EditStep>& steps,
                                      const std::string& scope) {
  std::vector<ir::NodeId> nodes;
  for (const EditStep& step : steps) {
    std::vector<ir::ValueId> operands = {value};
    operands.insert(operands.end(), step.more.begin(), step.more.end());
    nodes.push_back(FL_TRY(ir::create_node(graph, step.op, operands, step.attributes, {}, scope)));
    value = graph.node(nodes.back()).results[0];
  }
  return nodes;
}

Status place(ir::Graph& graph, ir::NodeId at, bool behind, const std::vector<ir::NodeId>& nodes) {
  ir::Region* region = region_with(graph, at);
  if (region == nullptr) return invalid_argument("a node that stands nowhere");
  auto where = std::find(region->nodes.begin(), region->nodes.end(), at);
  region->nodes.insert(behind ? where + 1 : where, nodes.begin(), nodes.end());
  return ok_status();
}

// The formula again; `at`: what stands for term i, given where its arguments are now. -1: the term itself.
Expression rebuilt(const Expression& from,
                   const std::function<int32_t(Expression&, size_t, const std::array<int32_t, 3>&)>& at) {
  Expression out;
  std::vector<int32_t> place;
  for (size_t i = 0; i < from.terms().size(); ++i) {
    const ExprTerm& term = from.terms()[i];
    std::array<int32_t, 3> args = {-1, -1, -1};
    for (size_t k = 0; k < 3; ++k) {
      if (term.args[k] >= 0) args[k] = place[static_cast<size_t>(term.args[k])];
    }
    int32_t now = at(out, i, args);
    if (now < 0) {
      now = term.op == ExprOp::kInput      ? out.input(term.input)
            : term.op == ExprOp::kConstant ? out.constant(term.constant)
                                           : out.apply(term.op, args[0], args[1], args[2]);
    }
    place.push_back(now);
  }
  out.set_result(place.back());
  return out;
}

std::string short_number(double value) { return ops::exact_decimal(value); }

struct Activation {
  const char* name;
  const char* formula;
};
constexpr Activation kActivations[] = {
    {"silu", "mul(x0, sigmoid(x0))"},
    {"gelu", "mul(mul(0.5, x0), add(1.0, erf(mul(x0, 0.7071067811865476))))"},
    {"gelu by tanh",
     "mul(mul(0.5, x0), add(1.0, tanh(mul(0.7978845608028654, add(x0, mul(mul(mul(0.044715, x0), x0), x0))))))"},
    {"relu", "max(x0, 0.0)"},
    {"squared relu", "mul(max(x0, 0.0), max(x0, 0.0))"},
    {"sigmoid", "sigmoid(x0)"},
    {"tanh", "tanh(x0)"},
    {"softplus", "log1p(exp(x0))"},
    {"exp", "exp(x0)"},
    {"-exp", "neg(exp(x0))"},
};

// Per term: the one input it depends on; -1: none; -2: several.
std::vector<int32_t> single_inputs(const Expression& formula) {
  std::vector<int32_t> of;
  for (const ExprTerm& term : formula.terms()) {
    int32_t one = term.op == ExprOp::kInput ? term.input : -1;
    for (const int32_t arg : term.args) {
      if (arg < 0) continue;
      const int32_t other = of[static_cast<size_t>(arg)];
      if (other != -1) one = one == -1 || one == other ? other : -2;
    }
    of.push_back(one);
  }
  return of;
}

// Terms of one input that no other term of that input contains.
std::vector<size_t> largest_of_one_input(const Expression& formula) {
  const auto inputs = single_inputs(formula);
  std::vector<bool> inner(inputs.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const int32_t arg : formula.terms()[i].args) {
      if (arg >= 0 && inputs[i] >= 0) inner[static_cast<size_t>(arg)] = true;
    }
  }
  std::vector<size_t> terms;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] >= 0 && !inner[i]) terms.push_back(i);
  }
  return terms;
}

void change_term(const Expression& formula, size_t i, const std::vector<double>& numbers,
                 std::vector<FormulaChange>& out) {
  const ExprTerm& term = formula.terms()[i];
  const auto add = [&](const std::string& what, const std::string& instead,
                       const std::function<int32_t(Expression&, const std::array<int32_t, 3>&)>& make) {
    auto changed = rebuilt(formula, [&](Expression& e, size_t place, const std::array<int32_t, 3>& args) {
      return place == i ? make(e, args) : -1;
    });
    out.push_back({std::move(changed), what, instead});
  };
  const auto is_constant = [&](size_t k) {
    return term.args[k] >= 0 && formula.terms()[static_cast<size_t>(term.args[k])].op == ExprOp::kConstant;
  };
  const std::string name(ops::expr_op_name(term.op));
  if (term.op != ExprOp::kConstant) {
    add("1 added", "none", [&](Expression& e, const auto& args) {
      const int32_t same =
          term.op == ExprOp::kInput ? e.input(term.input) : e.apply(term.op, args[0], args[1], args[2]);
      return e.apply(ExprOp::kAdd, same, e.constant(1));
    });
  }
  if (term.op == ExprOp::kConstant) {
    for (const double number : numbers) {
      if (number == term.constant) continue;
      add(short_number(number), short_number(term.constant),
          [&](Expression& e, const auto&) { return e.constant(number); });
    }
    return;
  }
  switch (term.op) {
    case ExprOp::kMul:
    case ExprOp::kAdd:
    case ExprOp::kMin:
    case ExprOp::kMax:
      add("no " + name, name, [&](Expression&, const auto& args) { return args[is_constant(0) ? 1 : 0]; });
      if (!is_constant(0) && !is_constant(1))
        add("no " + name, name, [&](Expression&, const auto& args) { return args[1]; });
      break;
    case ExprOp::kSub:
      add("no sub", name, [&](Expression&, const auto& args) { return args[0]; });
      add("add", name, [&](Expression& e, const auto& args) { return e.apply(ExprOp::kAdd, args[0], args[1]); });
      break;
    case ExprOp::kDiv:
      add("no div", name, [&](Expression&, const auto& args) { return args[0]; });
      break;
    default:
      if (ops::expr_op_arity(term.op) == 1)
        add("no " + name, name, [&](Expression&, const auto& args) { return args[0]; });
  }
}

}  // namespace

Status wrap_result(ir::Graph& graph, ir::NodeId id, size_t index, const std::vector<EditStep>& steps) {
  return wrap_result(graph, id, index, steps, graph.value(graph.node(id).results[index]).type);
}

Status wrap_result(ir::Graph& graph, ir::NodeId id, size_t index, const std::vector<EditStep>& steps,
                   const tensor::Type& inner) {
  const ir::ValueId value = graph.node(id).results[index];
  ir::Value before = graph.value(value);
  before.name.clear();
  const tensor::Type type = before.type;
  before.type = inner;
  graph.values.push_back(std::move(before));
  const auto fresh = static_cast<ir::ValueId>(graph.values.size() - 1);
  const std::string scope = graph.node(id).scope;
  const auto nodes = FL_TRY(chain(graph, fresh, steps, scope));
  const ir::NodeId last = nodes.back();
  if (graph.value(graph.node(last).results[0]).type != type) return invalid_argument("of another type");
  graph.node(id).results[index] = fresh;
  graph.node(last).results[0] = value;
  graph.value(value).producer = last;
  return place(graph, id, true, nodes);
}

Status wrap_operand(ir::Graph& graph, ir::NodeId id, size_t index, const std::vector<EditStep>& steps) {
  const std::string scope = graph.node(id).scope;
  const auto nodes = FL_TRY(chain(graph, graph.node(id).operands[index], steps, scope));
  graph.node(id).operands[index] = graph.node(nodes.back()).results[0];
  return place(graph, id, false, nodes);
}

Result<ir::ValueId> read_tensor(ir::Graph& graph, ir::NodeId id, const std::string& name, const tensor::Type& type) {
  const ir::ValueId value = ir::Builder(graph).add_weight(name, type, name);
  if (type.dtype == tensor::DType::kF32) return value;
  const auto nodes = FL_TRY(chain(graph, value, {cast_step("f32")}, graph.node(id).scope));
  FL_TRY(place(graph, id, false, nodes));
  return graph.node(nodes.back()).results[0];
}

std::vector<std::pair<std::string, std::string>> activations() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Activation& activation : kActivations) out.emplace_back(activation.name, activation.formula);
  return out;
}

Status put_in_order(ir::Graph& graph) {
  auto& nodes = graph.body.nodes;
  const std::set<ir::NodeId> body(nodes.begin(), nodes.end());
  std::set<ir::NodeId> placed;
  std::vector<ir::NodeId> order;
  const auto is_ready = [&](ir::NodeId id) {
    for (const ir::ValueId operand : align::values_used_by(graph, id)) {
      const ir::NodeId maker = graph.value(operand).producer;
      if (maker >= 0 && maker != id && body.contains(maker) && !placed.contains(maker)) return false;
    }
    return true;
  };
  while (order.size() < nodes.size()) {
    const size_t before = order.size();
    for (const ir::NodeId id : nodes) {
      if (placed.contains(id) || !is_ready(id)) continue;
      placed.insert(id);
      order.push_back(id);
    }
    if (order.size() == before) return invalid_argument("nodes read in a circle");
  }
  for (const ir::NodeId id : order) {
    for (const ir::ValueId operand : graph.node(id).operands) {
      const ir::Value& value = graph.value(operand);
      if (value.kind == ir::Value::Kind::kResult && !body.contains(value.producer))
        return invalid_argument("a value of another node's region");
    }
  }
  nodes = std::move(order);
  return ok_status();
}

Status become_identity(ir::Graph& graph, ir::NodeId id, size_t operand) {
  const ir::Node& node = graph.node(id);
  const ir::ValueId from = node.operands[operand];
  if (node.results.size() != 1 || !node.regions.empty()) return invalid_argument("not one result");
  const tensor::Type &in = graph.value(from).type, &out = graph.value(node.results[0]).type;
  if (in != out || in.dtype != tensor::DType::kF32) return invalid_argument("of another type");
  EditStep same = map_step("x0");
  graph.node(id).op = same.op;
  graph.node(id).operands = {from};
  graph.node(id).attributes = std::move(same.attributes);
  return ok_status();
}

EditStep map_step(const std::string& expression, std::vector<ir::ValueId> more) {
  EditStep step{.op = ops::OpKind::kMap, .attributes = {}, .more = std::move(more)};
  auto parsed = Expression::parse(expression);
  if (parsed.ok()) step.attributes.set("expr", std::move(parsed).value());
  return step;
}

EditStep take_step(int64_t axis, std::vector<int64_t> indices) {
  EditStep step{.op = ops::OpKind::kTake, .attributes = {}};
  step.attributes.set("axis", axis);
  step.attributes.set("indices", std::move(indices));
  return step;
}

EditStep cast_step(const std::string& type) {
  EditStep step{.op = ops::OpKind::kCast, .attributes = {}};
  step.attributes.set("to", type);
  return step;
}

Expression with_numbers_scaled(const Expression& formula, double number, double factor) {
  return rebuilt(formula, [&](Expression& e, size_t i, const std::array<int32_t, 3>&) {
    const ExprTerm& term = formula.terms()[i];
    if (term.op != ExprOp::kConstant || std::abs(term.constant) != std::abs(number)) return -1;
    return e.constant(term.constant * factor);
  });
}

std::vector<FormulaChange> formula_changes(const Expression& formula, const std::vector<double>& numbers) {
  std::vector<FormulaChange> out;
  for (size_t i = 0; i < formula.terms().size(); ++i) change_term(formula, i, numbers, out);
  for (const size_t i : largest_of_one_input(formula)) {
    const int32_t input = single_inputs(formula)[i];
    for (const Activation& activation : kActivations) {
      const auto other = Expression::parse(activation.formula);
      if (!other.ok()) continue;
      auto changed = rebuilt(formula, [&](Expression& e, size_t place, const std::array<int32_t, 3>&) {
        if (place != i) return -1;
        const int32_t x = e.input(input);
        return e.inlined(*other, std::array{x});
      });
      out.push_back({std::move(changed), activation.name, "another function of x" + std::to_string(input)});
    }
  }
  std::set<std::string> seen = {formula.to_string()};
  std::erase_if(out, [&](const FormulaChange& change) {
    return change.formula.num_inputs() > formula.num_inputs() || !seen.insert(change.formula.to_string()).second;
  });
  return out;
}

}  // namespace firstlight::locate
