// SPDX-License-Identifier: Apache-2.0
#include "gates/layer_kinds.h"

#include <map>

#include "ir/text.h"

namespace firstlight::gates {
namespace {

// The piece with all names by number, as text.
std::string shape_of(const align::Segment& segment) {
  ir::Graph graph = segment.graph;
  graph.name = "piece";
  graph.metadata = {};
  graph.weight_sources.clear();
  size_t number = 0;
  for (ir::Value& value : graph.values) {
    if (!value.name.empty()) value.name = "v" + std::to_string(number++);
  }
  number = 0;
  for (ops::StateDecl& state : graph.states) state.name = "s" + std::to_string(number++);
  for (ir::Node& node : graph.nodes) node.scope.clear();
  number = 0;
  for (std::string& name : graph.output_names) name = "y" + std::to_string(number++);
  return ir::print(graph);
}

}  // namespace

std::vector<LayerKind> layer_kinds(const align::Cut& cut) {
  std::vector<LayerKind> kinds;
  std::map<std::string, size_t> known;
  for (size_t s = 0; s < cut.segments.size(); ++s) {
    if (cut.segments[s].graph.body.yields.empty()) continue;
    const auto [place, is_new] = known.emplace(shape_of(cut.segments[s]), kinds.size());
    if (is_new) kinds.push_back({.segments = {}, .name = cut.segments[s].layer});
    kinds[place->second].segments.push_back(s);
  }
  return kinds;
}

}  // namespace firstlight::gates
