// SPDX-License-Identifier: Apache-2.0
// Norm weights, biases and the like are a few thousand numbers that every token reads: they become float32 once, at
// load, whatever the file stores. Exact for every plain float type (float64 apart, which the operators round so
// themselves). Only for operators whose results do not take over the operand's type, and not through the parameters of
// a region.
#include <array>
#include <map>

#include "compiler/passes/passes.h"
#include "compiler/weight_values.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

// Taps of a convolution, rates of a state space: matrices, but with a few numbers per channel.
bool has_small_matrices(ops::OpKind op) {
  return op == ops::OpKind::kConv1d || op == ops::OpKind::kRecurGla || op == ops::OpKind::kRecurSelective;
}

bool is_small_float(const tensor::Type& type, ops::OpKind reader) {
  const size_t most = has_small_matrices(reader) ? 2 : 1;
  return !type.is_state() && type.shape.size() <= most && tensor::dtype_info(type.dtype).is_float &&
         type.dtype != tensor::DType::kF32;
}

bool reads_as_float32(ops::OpKind op) {
  switch (op) {
    case ops::OpKind::kMap:
    case ops::OpKind::kRmsNorm:
    case ops::OpKind::kLayerNorm:
    case ops::OpKind::kLinear:
    case ops::OpKind::kFusedLinear:
    case ops::OpKind::kAttend:
    case ops::OpKind::kAttendSegments:
    case ops::OpKind::kConv1d:
    case ops::OpKind::kRecurGla:
    case ops::OpKind::kRecurSelective:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status decode_small_weights(ir::Graph& graph, const CompileOptions&) {
  const auto weight_only = weight_only_values(graph);
  std::map<ir::ValueId, ir::ValueId> decoded;
  std::vector<ir::NodeId> made;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!reads_as_float32(graph.nodes[n].op)) continue;
    const auto first_result = static_cast<size_t>(graph.nodes[n].results[0]);
    if (first_result < weight_only.size() && weight_only[first_result]) continue;
    for (size_t i = 0; i < graph.nodes[n].operands.size(); ++i) {
      const ir::ValueId id = graph.nodes[n].operands[i];
      if (static_cast<size_t>(id) >= weight_only.size() || !weight_only[static_cast<size_t>(id)]) continue;
      if (!is_small_float(graph.value(id).type, graph.nodes[n].op)) continue;
      if (!decoded.contains(id)) {
        ops::Attributes attributes;
        attributes.set("to", std::string("f32"));
        const std::array operands = {id};
        made.push_back(FL_TRY(ir::create_node(graph, ops::OpKind::kCast, operands, attributes, {}, "weights")));
        decoded[id] = graph.node(made.back()).results[0];
      }
      graph.nodes[n].operands[i] = decoded[id];
    }
  }
  // Behind the last node of the load steps, which hoist_weight_nodes has put in front.
  auto& order = graph.body.nodes;
  size_t place = 0;
  while (place < order.size() && weight_only[static_cast<size_t>(graph.node(order[place]).results[0])]) ++place;
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), made.begin(), made.end());
  return ok_status();
}

}  // namespace firstlight::compiler
