// SPDX-License-Identifier: Apache-2.0
#include "adapt/tensor_uses.h"

#include <algorithm>
#include <vector>

namespace firstlight::adapt {
namespace {

constexpr int kFarthest = 8;  // operators between a product and what its result is for, and from a weight to a product

class Uses {
 public:
  explicit Uses(const ir::Graph& graph) : graph_(graph), users_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ir::ValueId operand : graph.nodes[i].operands)
        users_[static_cast<size_t>(operand)].push_back(static_cast<ir::NodeId>(i));
    }
  }

  TensorUse use_of(ir::ValueId weight) const {
    TensorUse use;
    use.why_kept = reason(weight, kFarthest, use.inputs_in_rows);
    return use;
  }

 private:
  std::string reason(ir::ValueId weight, int steps, bool& transposed) const {
    if (steps == 0) return "it goes a long way to its product";
    for (const ir::NodeId id : users_[static_cast<size_t>(weight)]) {
      std::string found = reason_in(graph_.node(id), weight, steps, transposed);
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string reason_in(const ir::Node& node, ir::ValueId weight, int steps, bool& transposed) const {
    switch (node.op) {
      case ops::OpKind::kLinear:
        if (node.operands[0] == weight || (node.operands.size() > 2 && node.operands[2] == weight))
          return "it is no weight of a product";
        if (leads_to(node.results[0], kFarthest, true)) return "it makes the logits";
        if (leads_to(node.results[0], kFarthest, false)) return "it chooses experts or rows";
        return "";
      case ops::OpKind::kBatchedLinear:
        return "";
      case ops::OpKind::kTranspose: {
        const auto& perm = node.attributes.get_ints("perm");
        if (perm.back() != static_cast<int64_t>(perm.size()) - 1) transposed = true;
        return reason(node.results[0], steps - 1, transposed);
      }
      case ops::OpKind::kStack:
      case ops::OpKind::kReshape:
      case ops::OpKind::kSlice:
      case ops::OpKind::kCast:
      case ops::OpKind::kConcat:
        return reason(node.results[0], steps - 1, transposed);
      case ops::OpKind::kPerExpert:
        return reason_in_experts(node, weight, steps, transposed);
      case ops::OpKind::kGatherRows:
        return "it is an embedding";
      default:
        return "it is an operand of " + std::string(ops::op_name(node.op));
    }
  }

  // Operands are x, idx, weight and the stacks; the region's parameters the rows and one of each stack.
  std::string reason_in_experts(const ir::Node& node, ir::ValueId weight, int steps, bool& transposed) const {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] != weight) continue;
      if (i < 3) return "it is no weight of a product";
      std::string found = reason(node.regions[0].parameters[i - 2], steps - 1, transposed);
      if (!found.empty()) return found;
    }
    return "";
  }

  // Whether the value becomes the logits, or decides what top_k chooses, with nothing but small steps between.
  bool leads_to(ir::ValueId value, int steps, bool logits) const {
    if (logits && std::find(graph_.body.yields.begin(), graph_.body.yields.end(), value) != graph_.body.yields.end())
      return true;
    if (steps == 0) return false;
    for (const ir::NodeId id : users_[static_cast<size_t>(value)]) {
      const ir::Node& node = graph_.node(id);
      if (!logits && node.op == ops::OpKind::kTopK) return true;
      const bool small = node.op == ops::OpKind::kMap || node.op == ops::OpKind::kSoftmax ||
                         node.op == ops::OpKind::kCast || node.op == ops::OpKind::kReshape;
      if (small && std::any_of(node.results.begin(), node.results.end(),
                               [&](ir::ValueId result) { return leads_to(result, steps - 1, logits); })) {
        return true;
      }
    }
    return false;
  }

  const ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
};

}  // namespace

std::map<std::string, TensorUse, std::less<>> tensor_uses(const ir::Graph& graph) {
  const Uses uses(graph);
  std::map<std::string, TensorUse, std::less<>> found;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ir::Value& value = graph.values[i];
    if (value.kind != ir::Value::Kind::kWeight) continue;
    found[graph.weight_sources.at(value.name).tensor] = uses.use_of(static_cast<ir::ValueId>(i));
  }
  return found;
}

}  // namespace firstlight::adapt
