// SPDX-License-Identifier: Apache-2.0
#include "align/expert_values.h"

#include <algorithm>
#include <map>

#include "ir/rewrite.h"
#include "ir/verify.h"

namespace firstlight::align {
namespace {

using ir::NodeId;
using ir::ValueId;
using ops::OpKind;

class Adder {
 public:
  explicit Adder(const ir::Graph& graph) : runs_(find_layer_runs(graph)) { out_.graph = graph; }

  Result<ExpertValues> run() {
    std::map<NodeId, std::string> layer_of;
    for (const LayerRun& run : runs_) {
      for (const NodeId id : run.nodes) layer_of[id] = run.layer;
    }
    const std::vector<NodeId> nodes = out_.graph.body.nodes;
    for (const NodeId id : nodes) {
      placed_.push_back(id);
      if (out_.graph.node(id).op == OpKind::kPerExpert) FL_TRY(add_values(id, layer_of[id]));
    }
    out_.graph.body.nodes = placed_;
    FL_TRY(ir::verify(out_.graph));
    return std::move(out_);
  }

 private:
  Result<ValueId> add(OpKind op, std::vector<ValueId> operands, const std::string& attributes,
                      const std::string& scope) {
    const NodeId id =
        FL_TRY(ir::create_node(out_.graph, op, operands, FL_TRY(ops::parse_attributes(attributes)), {}, scope));
    placed_.push_back(id);
    return out_.graph.node(id).results[0];
  }

  // One column of each token's experts and weights.
  struct Slot {
    ValueId indices = -1, weights = -1;
  };

  Result<std::vector<Slot>> slots_of(NodeId experts) {
    const ir::Node node = out_.graph.node(experts);
    const int64_t k = out_.graph.value(node.operands[1]).type.shape[1].factor;
    const bool weighs_input = node.attributes.get_string("weight_on") == "input";
    ValueId order = node.operands[1];
    if (!weighs_input) {  // the largest number first
      const ValueId numbers = FL_TRY(add(OpKind::kCast, {order}, "{to = \"f32\"}", node.scope));
      const ValueId sorted = FL_TRY(add(OpKind::kTopK, {numbers}, "{k = " + std::to_string(k) + "}", node.scope));
      order = FL_TRY(add(OpKind::kCast, {sorted}, "{to = \"i32\"}", node.scope));
    }
    std::vector<Slot> slots;
    for (int64_t s = 0; s < k; ++s) {
      const int64_t column = weighs_input ? s : k - 1 - s;
      const std::string cut =
          "{axis = 1, start = " + std::to_string(column) + ", stop = " + std::to_string(column + 1) + "}";
      Slot slot;
      slot.indices = FL_TRY(add(OpKind::kSlice, {order}, cut, node.scope));
      slot.weights = FL_TRY(add(OpKind::kSlice, {node.operands[2]}, cut, node.scope));
      if (!weighs_input) {
        const ValueId numbers = FL_TRY(add(OpKind::kCast, {slot.indices}, "{to = \"f32\"}", node.scope));
        slot.weights = FL_TRY(add(OpKind::kMap, {numbers}, "{expr = add(mul(x0, 0.0), 1.0)}", node.scope));
      }
      slots.push_back(slot);
    }
    return slots;
  }

  Status add_values(NodeId experts, const std::string& layer) {
    const ir::Node node = out_.graph.node(experts);
    const auto slots = FL_TRY(slots_of(experts));
    std::map<std::string, int> seen;
    for (const NodeId inner : node.regions[0].nodes) {
      const ir::Node made = out_.graph.node(inner);
      if (made.results.empty()) continue;
      const tensor::Type& type = out_.graph.value(made.results[0]).type;
      const bool is_rows = type.dtype == tensor::DType::kF32 && type.shape.size() == 2 &&
                           type.shape[0] == tensor::Dim(1, tensor::Symbol::kRows) && type.shape[1].is_static();
      if (!is_rows) continue;
      const std::string op(ops::op_name(made.op));
      std::string name = (node.scope.empty() ? "" : node.scope + ".") + "expert." + op;
      const int count = ++seen[name];
      if (count > 1) name += "#" + std::to_string(count);
      for (size_t s = 0; s < slots.size(); ++s) {
        const ValueId value = FL_TRY(value_of_slot(node, made.results[0], slots[s]));
        out_.taps.push_back({.value = value,
                             .name = name + "[slot " + std::to_string(s) + "]",
                             .layer = layer,
                             .op = op,
                             .type = out_.graph.value(value).type});
        out_.behind.push_back(node.results[0]);
      }
    }
    return ok_status();
  }

  // A per_expert whose body is the copied part of the other's that makes `wanted`, for one slot.
  Result<ValueId> value_of_slot(const ir::Node& node, ValueId wanted, const Slot& slot) {
    ir::Region body;
    std::map<ValueId, ValueId> copy;
    for (const ValueId parameter : node.regions[0].parameters) {
      ir::Value value = out_.graph.value(parameter);
      const auto id = static_cast<ValueId>(out_.graph.values.size());
      out_.graph.values.push_back(std::move(value));
      copy[parameter] = id;
      body.parameters.push_back(id);
    }
    for (const NodeId id : node.regions[0].nodes) {
      const ir::Node inner = out_.graph.node(id);
      if (!inner.regions.empty()) return internal_error("a region inside the body of experts");
      std::vector<ValueId> operands;
      for (const ValueId operand : inner.operands) operands.push_back(copy.contains(operand) ? copy[operand] : operand);
      const NodeId made = FL_TRY(ir::create_node(out_.graph, inner.op, operands, inner.attributes, {}, inner.scope));
      body.nodes.push_back(made);
      for (size_t r = 0; r < inner.results.size(); ++r) copy[inner.results[r]] = out_.graph.node(made).results[r];
      if (std::find(inner.results.begin(), inner.results.end(), wanted) != inner.results.end()) break;
    }
    body.yields = {copy.at(wanted)};
    std::vector<ValueId> operands = node.operands;
    operands[1] = slot.indices;
    operands[2] = slot.weights;
    std::vector<ir::Region> regions;
    regions.push_back(std::move(body));
    const NodeId made = FL_TRY(
        ir::create_node(out_.graph, OpKind::kPerExpert, operands, node.attributes, std::move(regions), node.scope));
    placed_.push_back(made);
    return out_.graph.node(made).results[0];
  }

  std::vector<LayerRun> runs_;
  ExpertValues out_;
  std::vector<NodeId> placed_;  // the body's nodes, old and new
};

}  // namespace

Result<ExpertValues> with_expert_values(const ir::Graph& graph) { return Adder(graph).run(); }

bool is_expert_value(const std::string& name) { return name.find("[slot ") != std::string::npos; }

}  // namespace firstlight::align
