// SPDX-License-Identifier: Apache-2.0
#include "align/taps.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "compiler/weight_values.h"
#include "ir/rewrite.h"

namespace firstlight::align {
namespace {

using ops::OpKind;

bool is_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The scope up to its first number; empty where it has none.
std::string layer_of(const std::string& scope) {
  for (size_t begin = 0; begin <= scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    if (is_number(std::string_view(scope).substr(begin, end - begin))) return scope.substr(0, end);
    begin = end + 1;
  }
  return "";
}

// The modules whose weights a value is made of. A weight that was cut on its way is no longer its module's.
class Modules {
 public:
  explicit Modules(const ir::Graph& graph) : graph_(graph), weight_only_(compiler::weight_only_values(graph)) {}

  // The one module whose weights are the node's operands; empty: none, several, or an operator that is not a module.
  std::string of(const ir::Node& node) const {
    switch (node.op) {
      case OpKind::kLinear:
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
      case OpKind::kGatherRows:
      case OpKind::kConv1d:
      case OpKind::kConv2d:
      case OpKind::kPerExpert:
        break;
      default:
        return "";
    }
    std::string common;
    bool first = true;
    for (const ir::ValueId id : node.operands) {
      for (const std::string& name : weights_of(id)) {
        common = first ? name : common_prefix(common, name);
        first = false;
      }
    }
    // Of experts ("…experts.3.up_proj.weight") the folder that holds them all.
    const size_t dot = common.rfind('.');
    if (dot == std::string::npos) return "";
    const bool whole = graph_.weight_sources.contains(common);
    return whole || common.back() == '.' ? common.substr(0, dot) : common;
  }

 private:
  // Whole components that both have, with the dot behind them.
  static std::string common_prefix(const std::string& a, const std::string& b) {
    if (a == b) return a;
    size_t end = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
      if (a[i] == '.') end = i + 1;
    }
    return a.substr(0, end);
  }

  std::set<std::string> weights_of(ir::ValueId id) const {
    const ir::Value& value = graph_.value(id);
    if (value.kind == ir::Value::Kind::kWeight) return {value.name};
    if (value.kind != ir::Value::Kind::kResult || !weight_only_[static_cast<size_t>(id)]) return {};
    const ir::Node& node = graph_.node(value.producer);
    switch (node.op) {
      case OpKind::kReshape:
      case OpKind::kTranspose:
      case OpKind::kCast:
      case OpKind::kDequantize:
      case OpKind::kAssembleWeight:
      case OpKind::kPackMxfp4:
      case OpKind::kStack:
      case OpKind::kMap:
        break;
      default:
        return {};
    }
    std::set<std::string> names;
    for (const ir::ValueId operand : node.operands) names.merge(weights_of(operand));
    return names;
  }

  const ir::Graph& graph_;
  std::vector<bool> weight_only_;
};

void collect_uses(const ir::Graph& graph, const ir::Node& node, std::vector<ir::ValueId>& out) {
  out.insert(out.end(), node.operands.begin(), node.operands.end());
  for (const ir::Region& region : node.regions) {
    for (const ir::NodeId id : region.nodes) collect_uses(graph, graph.node(id), out);
    out.insert(out.end(), region.yields.begin(), region.yields.end());
  }
}

// Per value, whether a node of another run, or an output, uses it; regions count as their node.
std::vector<bool> used_outside(const ir::Graph& graph, const std::vector<LayerRun>& runs) {
  std::vector<int> run_of(graph.nodes.size(), -1);
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const ir::NodeId id : runs[r].nodes) run_of[static_cast<size_t>(id)] = static_cast<int>(r);
  }
  std::vector<bool> used(graph.values.size(), false);
  for (const LayerRun& run : runs) {
    for (const ir::NodeId id : run.nodes) {
      for (const ir::ValueId operand : values_used_by(graph, id)) {
        const ir::NodeId producer = graph.value(operand).producer;
        if (producer >= 0 && run_of[static_cast<size_t>(producer)] != run_of[static_cast<size_t>(id)])
          used[static_cast<size_t>(operand)] = true;
      }
    }
  }
  for (const ir::ValueId id : graph.body.yields) used[static_cast<size_t>(id)] = true;
  return used;
}

}  // namespace

std::vector<ir::ValueId> values_used_by(const ir::Graph& graph, ir::NodeId id) {
  std::vector<ir::ValueId> out;
  collect_uses(graph, graph.node(id), out);
  return out;
}

bool has_token_rows(const tensor::Type& type) {
  using tensor::Symbol;
  if (type.is_state() || type.shape.empty() || type.shape[0].factor != 1) return false;
  if (type.dtype != tensor::DType::kF32 && type.dtype != tensor::DType::kI32) return false;
  const Symbol symbol = type.shape[0].symbol;
  if (symbol != Symbol::kTokens && symbol != Symbol::kOutputs && symbol != Symbol::kGroups) return false;
  return std::all_of(type.shape.begin() + 1, type.shape.end(), [](const tensor::Dim& dim) { return dim.is_static(); });
}

int64_t Tap::width() const {
  int64_t width = 1;
  for (size_t i = 1; i < type.shape.size(); ++i) width *= type.shape[i].factor;
  return width;
}

int64_t Tap::rate() const { return type.shape[0].symbol == tensor::Symbol::kGroups ? type.shape[0].rate : 1; }

std::vector<LayerRun> find_layer_runs(const ir::Graph& graph) {
  const auto weight_only = compiler::weight_only_values(graph);
  std::vector<LayerRun> runs;
  for (const ir::NodeId id : graph.body.nodes) {
    const ir::Node& node = graph.node(id);
    if (!node.results.empty() && weight_only[static_cast<size_t>(node.results[0])]) continue;
    const std::string layer = layer_of(node.scope);
    if (runs.empty() || runs.back().layer != layer) runs.push_back({.layer = layer, .nodes = {}});
    runs.back().nodes.push_back(id);
  }
  std::map<std::string, int> parts;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].layer.empty()) runs[r].layer = r == 0 ? "embedding" : r + 1 == runs.size() ? "head" : "between";
    const int part = ++parts[runs[r].layer];
    if (part > 1) runs[r].layer += "#" + std::to_string(part);
  }
  return runs;
}

std::vector<Tap> find_taps(const ir::Graph& graph, bool operators) {
  const auto runs = find_layer_runs(graph);
  const auto crossing = used_outside(graph, runs);
  const Modules modules(graph);
  std::map<ir::ValueId, std::string> outputs;
  for (size_t i = 0; i < graph.output_names.size(); ++i) outputs[graph.body.yields[i]] = graph.output_names[i];
  std::map<std::string, int> seen;
  std::vector<Tap> taps;
  for (const LayerRun& run : runs) {
    std::vector<Tap> found;
    size_t layer_output = SIZE_MAX;  // the last value that leaves the run
    for (const ir::NodeId id : run.nodes) {
      const ir::Node& node = graph.node(id);
      const std::string module = modules.of(node);
      const std::string op(ops::op_name(node.op));
      for (size_t i = 0; i < node.results.size(); ++i) {
        const ir::ValueId value = node.results[i];
        const tensor::Type& type = graph.value(value).type;
        if (!has_token_rows(type)) continue;
        Tap tap{.value = value, .name = "", .layer = run.layer, .op = op, .type = type};
        const bool named = !module.empty() && i == 0;
        tap.is_module_output = named && node.op != OpKind::kGatherRows;  // a vendor's may scale its rows
        tap.name = named ? module : (node.scope.empty() ? "" : node.scope + ".") + op;
        if (i > 0) tap.name += "." + std::to_string(i);
        if (crossing[static_cast<size_t>(value)]) layer_output = found.size();
        found.push_back(std::move(tap));
      }
    }
    for (size_t i = 0; i < found.size(); ++i) {
      Tap& tap = found[i];
      const auto output = outputs.find(tap.value);
      tap.is_layer_output = i == layer_output;
      if (output != outputs.end()) {
        tap.name = output->second;
        tap.is_module_output = false;
      } else if (tap.is_layer_output) {
        tap.name = run.layer;
        tap.is_module_output = run.layer.find('.') != std::string::npos;
      }
      const int count = ++seen[tap.name];
      if (count > 1) tap.name += "#" + std::to_string(count);
      const bool plain = tap.op == "reshape" && !tap.is_layer_output && output == outputs.end();
      if (plain || (!operators && !tap.is_layer_output && output == outputs.end())) continue;
      taps.push_back(std::move(tap));
    }
  }
  return taps;
}

ir::Graph with_outputs(const ir::Graph& graph, const std::vector<Tap>& taps) {
  ir::Graph out = graph;
  out.output_names.clear();
  out.body.yields.clear();
  for (const Tap& tap : taps) {
    out.output_names.push_back(tap.name);
    out.body.yields.push_back(tap.value);
  }
  ir::eliminate_dead_code(out);
  return out;
}

}  // namespace firstlight::align
