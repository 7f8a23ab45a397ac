// SPDX-License-Identifier: Apache-2.0
// The kinds of fault: their words, and which one is usual for an operator.
#include <algorithm>

#include "locate/hypotheses.h"

namespace firstlight::locate {
namespace {

using ops::OpKind;

struct CauseRow {
  Cause cause;
  std::string_view text, advice;
};
constexpr CauseRow kCauses[] = {
    {Cause::kConfig, "config value wrong or missing", "hold the spec's use of config.json against the vendor's code"},
    {Cause::kWeight, "weight or layout", "hold the tensor against a clean copy, and the order of its rows and halves"},
    {Cause::kAccumulation, "accumulation order or width", "accumulate in float32, or run with --compute f32"},
    {Cause::kFormat, "format conversion", "run with --compute f32; look at how the stored type is decoded"},
    {Cause::kPosition, "position or rope pairing", "look at pairing, base, scaling and length of the rotation"},
    {Cause::kMask, "mask or window", "look at window, causality, sinks and mask of this layer's kind"},
    {Cause::kNorm, "norm epsilon or offset", "look at the norm's epsilon and whether files store w or w - 1"},
    {Cause::kRouting, "routing", "look at score function, normalisation, scale and correction bias of the router"},
    {Cause::kState, "state handling", "run in one chunk, and with --kv-dtype f32"},
    {Cause::kKernel, "kernel defect on a shape", "compare the kernel with its plain form on this shape"},
};

const CauseRow& cause_row(Cause cause) {
  return *std::find_if(std::begin(kCauses), std::end(kCauses), [&](const CauseRow& row) { return row.cause == cause; });
}

void walk_back(const ir::Graph& graph, ir::ValueId value, std::set<ir::NodeId>& out) {
  const ir::NodeId id = graph.value(value).producer;
  if (id < 0 || !out.insert(id).second) return;
  const OpKind op = graph.node(id).op;
  if (op == OpKind::kLinear || op == OpKind::kRoute || op == OpKind::kRmsNorm || op == OpKind::kLayerNorm) return;
  for (const ir::ValueId operand : graph.node(id).operands) walk_back(graph, operand, out);
}

}  // namespace

std::string_view cause_text(Cause cause) { return cause_row(cause).text; }
std::string_view cause_advice(Cause cause) { return cause_row(cause).advice; }

Cause usual_cause(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& routing) {
  const ir::Node& node = graph.node(id);
  switch (node.op) {
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
      return Cause::kNorm;
    case OpKind::kLinear:
    case OpKind::kBatchedLinear:
    case OpKind::kGatherRows:
    case OpKind::kPerExpert:
    case OpKind::kConv1d:
    case OpKind::kEinsum:
    case OpKind::kConcat:
    case OpKind::kSlice:
    case OpKind::kDequantize:
      return Cause::kWeight;
    case OpKind::kRope:
      return Cause::kPosition;
    case OpKind::kAttend:
    case OpKind::kAttendSegments:
    case OpKind::kIndexScores:
      return Cause::kMask;
    case OpKind::kTopK:
    case OpKind::kRoute:
    case OpKind::kGatherLast:
      return Cause::kRouting;
    case OpKind::kShift:
    case OpKind::kWindowEmit:
    case OpKind::kRecentTokens:
    case OpKind::kRecurGla:
    case OpKind::kRecurDelta:
    case OpKind::kRecurSelective:
    case OpKind::kRecurElementwise:
    case OpKind::kRecurDplr:
    case OpKind::kAppend:
      return Cause::kState;
    default:
      return routing.contains(id) ? Cause::kRouting : Cause::kConfig;
  }
}

std::set<ir::NodeId> routing_nodes(const ir::Graph& graph) {
  std::set<ir::NodeId> out;
  for (const ir::NodeId id : graph.body.nodes) {
    const ir::Node& node = graph.node(id);
    if (node.op != OpKind::kPerExpert) continue;
    for (size_t k = 1; k < 3 && k < node.operands.size(); ++k) walk_back(graph, node.operands[k], out);
  }
  return out;
}

}  // namespace firstlight::locate
