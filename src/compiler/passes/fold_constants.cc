// SPDX-License-Identifier: Apache-2.0
// What needs no computing is not computed: formulas lose numbers added to numbers and factors of one; maps, reshapes,
// transposes, casts, slices and concats that change nothing go; reshapes of reshapes and transposes of transposes
// become one; what is made of constants alone becomes a constant, where an evaluator is at hand.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/simplify_formula.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::Expression;
using ops::ExprOp;
using ops::ExprTerm;

constexpr int64_t kMaxFolded = 65536;  // elements of a constant that folding may make

bool is_input(const Expression& e) { return e.terms().size() == 1 && e.terms()[0].op == ExprOp::kInput; }

class Folder {
 public:
  Folder(ir::Graph& graph, const CompileOptions& options) : graph_(graph), options_(options) {}

  Status visit(ir::Region& region) {
    std::vector<ir::NodeId> order;
    for (const ir::NodeId id : std::vector<ir::NodeId>(region.nodes)) {
      for (ir::ValueId& operand : graph_.node(id).operands) operand = resolved(operand);
      const ir::NodeId folded = FL_TRY(fold(id));
      order.push_back(folded);
    }
    for (ir::ValueId& yield : region.yields) yield = resolved(yield);
    region.nodes = std::move(order);
    return ok_status();
  }

  void finish() {
    ir::replace_uses(graph_, same_as_);
    ir::eliminate_dead_code(graph_);
  }

 private:
  ir::ValueId resolved(ir::ValueId id) const {
    while (static_cast<size_t>(id) < same_as_.size() && same_as_[static_cast<size_t>(id)] >= 0) {
      id = same_as_[static_cast<size_t>(id)];
    }
    return id;
  }

  void take_for(ir::ValueId result, ir::ValueId other) {
    if (same_as_.size() < graph_.values.size()) same_as_.resize(graph_.values.size(), -1);
    same_as_[static_cast<size_t>(result)] = other;
  }

  const ir::Node* producer(ir::ValueId id) const {
    const ir::NodeId node = graph_.value(id).producer;
    return node < 0 ? nullptr : &graph_.node(node);
  }

  // The node that stands in the order where `id` stood.
  Result<ir::NodeId> fold(ir::NodeId id) {
    ir::Node& node = graph_.node(id);
    if (node.results.size() != 1 || !node.regions.empty() || node.operands.empty()) return id;
    const ir::ValueId result = node.results[0];
    if (node.op == ops::OpKind::kMap) {
      node.attributes.set("expr", simplified(node.attributes.get_expression("expr")));
      drop_unread_operands(node);
    }
    if (node.op == ops::OpKind::kReshape) skip_reshapes(node);
    if (node.op == ops::OpKind::kTranspose) join_transposes(node);
    if (const ir::ValueId same = unchanged(node); same >= 0) {
      take_for(result, same);
      return id;
    }
    return fold_values(id);
  }

  // Operands that the formula does not read, unless they give the result its shape.
  void drop_unread_operands(ir::Node& node) const {
    const Expression& expr = node.attributes.get_expression("expr");
    std::vector<bool> read(node.operands.size(), false);
    for (const ExprTerm& term : expr.terms()) {
      if (term.op == ExprOp::kInput) read[static_cast<size_t>(term.input)] = true;
    }
    tensor::Shape shape;
    std::vector<ir::ValueId> kept;
    std::vector<int32_t> place(node.operands.size(), -1);
    Expression renamed;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (!read[i]) continue;
      ops::broadcast_onto(shape, graph_.value(node.operands[i]).type.shape);
      place[i] = renamed.input(static_cast<int32_t>(kept.size()));
      kept.push_back(node.operands[i]);
    }
    if (kept.empty() || kept.size() == node.operands.size()) return;
    if (shape != graph_.value(node.results[0]).type.shape) return;
    renamed.set_result(renamed.inlined(expr, place));
    node.operands = std::move(kept);
    node.attributes.set("expr", std::move(renamed));
  }

  void skip_reshapes(ir::Node& node) const {
    const ir::Node* inner = producer(node.operands[0]);
    // With two symbols in play a size may be written that the source alone does not give.
    if (inner == nullptr || inner->op != ops::OpKind::kReshape) return;
    node.operands[0] = inner->operands[0];
  }

  void join_transposes(ir::Node& node) const {
    const ir::Node* inner = producer(node.operands[0]);
    if (inner == nullptr || inner->op != ops::OpKind::kTranspose) return;
    std::vector<int64_t> joined;
    for (const int64_t axis : node.attributes.get_ints("perm")) {
      joined.push_back(inner->attributes.get_ints("perm")[static_cast<size_t>(axis)]);
    }
    node.attributes.set("perm", std::move(joined));
    node.operands[0] = inner->operands[0];
  }

  // The value that the node's result equals, element for element and in type; -1: none.
  ir::ValueId unchanged(const ir::Node& node) const {
    const tensor::Type& type = graph_.value(node.results[0]).type;
    const ir::ValueId x = node.operands[0];
    if (type.is_state() || graph_.value(x).type != type) return -1;
    switch (node.op) {
      case ops::OpKind::kReshape:
      case ops::OpKind::kCast:
        return x;
      case ops::OpKind::kSlice:
        return x;  // one axis as long as before, in order: the whole
      case ops::OpKind::kConcat:
        return node.operands.size() == 1 ? x : -1;
      case ops::OpKind::kTranspose: {
        const auto& perm = node.attributes.get_ints("perm");
        for (size_t i = 0; i < perm.size(); ++i) {
          if (perm[i] != static_cast<int64_t>(i)) return -1;
        }
        return x;
      }
      case ops::OpKind::kMap: {
        const Expression& expr = node.attributes.get_expression("expr");
        if (!is_input(expr)) return -1;
        const ir::ValueId same = node.operands[static_cast<size_t>(expr.terms()[0].input)];
        return graph_.value(same).type == type ? same : -1;
      }
      default:
        return -1;
    }
  }

  bool is_constant(ir::ValueId id) const {
    const ir::Node* node = producer(id);
    return node != nullptr && node->op == ops::OpKind::kConstant;
  }

  Result<ir::NodeId> fold_values(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    const tensor::Type type = graph_.value(node.results[0]).type;
    const bool small = type.dtype == tensor::DType::kF32 && tensor::is_static(type.shape) &&
                       tensor::num_elements(type.shape) <= kMaxFolded;
    if (options_.evaluator == nullptr || type.is_state() || !small) return id;
    if (!std::all_of(node.operands.begin(), node.operands.end(), [&](ir::ValueId o) { return is_constant(o); }))
      return id;
    std::vector<ConstantEvaluator::Operand> operands;
    for (const ir::ValueId operand : node.operands) {
      operands.push_back({graph_.value(operand).type, producer(operand)->attributes.get_floats("values")});
    }
    auto values = options_.evaluator->evaluate(node.op, node.attributes, operands, type);
    if (!values.ok()) return id;  // it is made at load then
    ops::Attributes attributes;
    attributes.set("values", *std::move(values));
    std::vector<int64_t> shape;
    for (const tensor::Dim& dim : type.shape) shape.push_back(dim.factor);
    attributes.set("shape", std::move(shape));
    const ir::NodeId made =
        FL_TRY(ir::create_node(graph_, ops::OpKind::kConstant, {}, std::move(attributes), {}, node.scope));
    take_for(node.results[0], graph_.node(made).results[0]);
    return made;
  }

  ir::Graph& graph_;
  const CompileOptions& options_;
  std::vector<ir::ValueId> same_as_;  // per value: the one that takes its place; -1: none
};

}  // namespace

Status fold_constants(ir::Graph& graph, const CompileOptions& options) {
  Folder folder(graph, options);
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (status.ok()) status = folder.visit(region);
  });
  FL_TRY(std::move(status));
  folder.finish();
  return ok_status();
}

}  // namespace firstlight::compiler
