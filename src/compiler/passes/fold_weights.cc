// SPDX-License-Identifier: Apache-2.0
// Formulas on weights and constant factors move to where they cost nothing while tokens run: rms_norm(x, w + c) takes c
// as its offset; rms_norm(x) * w takes w; rms_norm(x, w) * c multiplies the weight once, at load; a factor of queries,
// in front of rope too, goes into attend's scale.
#include <array>
#include <optional>

#include "compiler/passes/passes.h"
#include "compiler/weight_values.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::Expression;
using ops::ExprOp;

// The number c of a formula x0 op c (or c op x0 where the operator does not mind); nullopt: another formula.
std::optional<double> with_number(const Expression& e, ExprOp op) {
  const auto terms = e.terms();
  if (terms.size() != 3 || terms[2].op != op) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    const ops::ExprTerm& number = terms[static_cast<size_t>(terms[2].args[i])];
    const ops::ExprTerm& input = terms[static_cast<size_t>(terms[2].args[1 - i])];
    if (number.op == ExprOp::kConstant && input.op == ExprOp::kInput && input.input == 0) return number.constant;
  }
  return std::nullopt;
}

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), weight_only_(weight_only_values(graph)) {}

  Status run() {
    uses_ = ir::count_uses(graph_);
    const size_t count = graph_.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      const auto id = static_cast<ir::NodeId>(i);
      switch (graph_.node(id).op) {
        case ops::OpKind::kRmsNorm:
          take_offset(graph_.node(id));
          break;
        case ops::OpKind::kMap:
          FL_TRY(scale_norm(id));
          break;
        case ops::OpKind::kAttend:
          scale_queries(graph_.node(id));
          break;
        default:
          break;
      }
    }
    // Behind the last node of the load steps, which stand in front.
    auto& order = graph_.body.nodes;
    size_t place = 0;
    while (place < order.size() && is_weight(graph_.node(order[place]).results[0])) ++place;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), made_.begin(), made_.end());
    return ok_status();
  }

 private:
  bool is_weight(ir::ValueId id) const {
    return static_cast<size_t>(id) < weight_only_.size() && weight_only_[static_cast<size_t>(id)];
  }
  bool used_once(ir::ValueId id) const {
    return static_cast<size_t>(id) < uses_.size() && uses_[static_cast<size_t>(id)] == 1;
  }
  // The node behind a value, if it is a map of one operand; null.
  const ir::Node* plain_map(ir::ValueId id) const {
    const ir::NodeId producer = graph_.value(id).producer;
    if (producer < 0 || graph_.node(producer).op != ops::OpKind::kMap) return nullptr;
    return graph_.node(producer).operands.size() == 1 ? &graph_.node(producer) : nullptr;
  }

  void take_offset(ir::Node& norm) {
    if (norm.operands.size() < 2) return;
    const ir::Node* map = plain_map(norm.operands[1]);
    if (map == nullptr || !is_weight(map->operands[0])) return;
    const auto offset = with_number(map->attributes.get_expression("expr"), ExprOp::kAdd);
    if (!offset || !ops::is_plain_float(graph_.value(map->operands[0]).type)) return;
    norm.attributes.set("offset", norm.attributes.get_float("offset") + *offset);
    norm.operands[1] = map->operands[0];
  }

  // map(rms_norm(x), w) and map(rms_norm(x, w)) by a number: the map becomes the norm.
  Status scale_norm(ir::NodeId id) {
    ir::Node map = graph_.node(id);
    const Expression& expr = map.attributes.get_expression("expr");
    for (size_t i = 0; i < map.operands.size(); ++i) {
      const ir::NodeId producer = graph_.value(map.operands[i]).producer;
      if (producer < 0 || graph_.node(producer).op != ops::OpKind::kRmsNorm || !used_once(map.operands[i])) continue;
      ir::Node norm = graph_.node(producer);
      const tensor::Type& type = graph_.value(norm.results[0]).type;
      if (graph_.value(map.results[0]).type != type) continue;
      if (map.operands.size() == 1 && norm.operands.size() == 2 && is_weight(norm.operands[1])) {
        const auto factor = with_number(expr, ExprOp::kMul);
        if (!factor) continue;
        norm.operands[1] = FL_TRY(scaled_weight(norm, *factor));
        norm.attributes.set("offset", 0.0);
      } else if (map.operands.size() == 2 && norm.operands.size() == 1) {
        const ir::ValueId weight = map.operands[1 - i];
        const auto terms = expr.terms();
        const bool product = terms.size() == 3 && terms[2].op == ExprOp::kMul && terms[0].op == ExprOp::kInput &&
                             terms[1].op == ExprOp::kInput;
        if (!product || !ops::is_plain_float(graph_.value(weight).type)) continue;
        if (!ops::has_shape(graph_.value(weight).type, {type.shape.back()})) continue;
        norm.operands.push_back(weight);
      } else {
        continue;
      }
      ir::Node& target = graph_.node(id);
      target.op = norm.op;
      target.operands = norm.operands;
      target.attributes = norm.attributes;
      return ok_status();
    }
    return ok_status();
  }

  Result<ir::ValueId> scaled_weight(const ir::Node& norm, double factor) {
    Expression formula;
    const int32_t whole =
        formula.apply(ExprOp::kAdd, formula.input(0), formula.constant(norm.attributes.get_float("offset")));
    formula.set_result(formula.apply(ExprOp::kMul, whole, formula.constant(factor)));
    ops::Attributes attributes;
    attributes.set("expr", std::move(formula));
    const ir::NodeId made = FL_TRY(
        ir::create_node(graph_, ops::OpKind::kMap, std::array{norm.operands[1]}, std::move(attributes), {}, "weights"));
    made_.push_back(made);
    return graph_.node(made).results[0];
  }

  // attend(rope(q * c)) with scale s is attend(rope(q)) with scale c s.
  void scale_queries(ir::Node& attend) {
    ir::Node* reader = &attend;
    size_t place = 0;
    while (true) {
      const ir::ValueId q = reader->operands[place];
      const ir::NodeId producer = graph_.value(q).producer;
      if (producer < 0 || !used_once(q)) return;
      ir::Node& node = graph_.node(producer);
      if (node.op == ops::OpKind::kMap) {
        const auto factor = node.operands.size() == 1
                                ? with_number(node.attributes.get_expression("expr"), ExprOp::kMul)
                                : std::nullopt;
        if (!factor || graph_.value(node.operands[0]).type != graph_.value(q).type) return;
        attend.attributes.set("scale", attend.attributes.get_float("scale") * *factor);
        reader->operands[place] = node.operands[0];
        return;
      }
      if (node.op != ops::OpKind::kRope && node.op != ops::OpKind::kReshape) return;
      reader = &node;
      place = 0;
    }
  }

  ir::Graph& graph_;
  std::vector<bool> weight_only_;
  std::vector<int32_t> uses_;
  std::vector<ir::NodeId> made_;
};

}  // namespace

Status fold_weights(ir::Graph& graph, const CompileOptions& options) {
  FL_TRY(hoist_weight_nodes(graph, options));
  FL_TRY(Folder(graph).run());
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
