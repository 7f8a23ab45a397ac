// SPDX-License-Identifier: Apache-2.0
#include "ir/dot.h"

#include <map>
#include <vector>

#include "ir/quoting.h"

namespace firstlight::ir {
namespace {

class DotPrinter {
 public:
  explicit DotPrinter(const Graph& graph) : graph_(graph) {}

  std::string run() {
    out_ = "digraph " + quoted_string(graph_.name) + " {\n  node [shape=box, fontname=monospace];\n";
    for (const ValueId id : graph_.body.parameters) {
      out_ += "  v" + std::to_string(id) + " [label=" + quoted_string("%" + graph_.value(id).name) + ", shape=oval];\n";
    }
    print_nodes(graph_.body);
    int cluster = 0;
    for (const auto& [scope, nodes] : scopes_) {
      out_ += "  subgraph cluster_" + std::to_string(cluster++) + " {\n    label=" + quoted_string(scope) + ";\n";
      for (const NodeId id : nodes) out_ += "    n" + std::to_string(id) + ";\n";
      out_ += "  }\n";
    }
    for (size_t i = 0; i < graph_.output_names.size(); ++i) {
      const std::string name = "out" + std::to_string(i);
      out_ += "  " + name + " [label=" + quoted_string(graph_.output_names[i]) + ", shape=oval];\n";
      print_edge(graph_.body.yields[i], name);
    }
    return out_ + "}\n";
  }

 private:
  void print_nodes(const Region& region) {
    for (const NodeId id : region.nodes) {
      const Node& node = graph_.node(id);
      std::string label = std::string(ops::op_name(node.op));
      for (const ValueId operand : node.operands) {
        if (graph_.value(operand).kind == Value::Kind::kWeight) label += "\n@" + graph_.value(operand).name;
      }
      out_ += "  n" + std::to_string(id) + " [label=" + dot_label(label) + "];\n";
      if (!node.scope.empty()) scopes_[node.scope].push_back(id);
      for (const ValueId operand : node.operands) print_edge(operand, "n" + std::to_string(id));
      for (const Region& inner : node.regions) {
        for (const ValueId parameter : inner.parameters) {
          out_ += "  v" + std::to_string(parameter) + " [label=\"\", shape=point];\n  n" + std::to_string(id) +
                  " -> v" + std::to_string(parameter) + " [style=dotted];\n";
        }
        print_nodes(inner);
      }
    }
  }

  void print_edge(ValueId from, const std::string& to) {
    const Value& value = graph_.value(from);
    if (value.kind == Value::Kind::kWeight || value.kind == Value::Kind::kState) return;
    const std::string source = value.producer >= 0 ? "n" + std::to_string(value.producer) : "v" + std::to_string(from);
    out_ += "  " + source + " -> " + to + " [label=" + quoted_string(value.type.to_string()) + "];\n";
  }

  // A label with line ends as DOT writes them.
  static std::string dot_label(const std::string& text) {
    std::string quoted = quoted_string(text);
    for (size_t at = quoted.find("\\x0a"); at != std::string::npos; at = quoted.find("\\x0a", at))
      quoted.replace(at, 4, "\\n");
    return quoted;
  }

  const Graph& graph_;
  std::string out_;
  std::map<std::string, std::vector<NodeId>> scopes_;
};

}  // namespace

std::string print_dot(const Graph& graph) { return DotPrinter(graph).run(); }

}  // namespace firstlight::ir
