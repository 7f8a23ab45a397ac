// SPDX-License-Identifier: Apache-2.0
// Printing. The parser stands in parse.cc.
#include "ir/text.h"

#include <string>

#include "ir/quoting.h"

namespace firstlight::ir {
namespace {

class Printer {
 public:
  Printer(const Graph& graph, bool with_scopes)
      : graph_(graph), with_scopes_(with_scopes), names_(graph.values.size()) {}

  std::string run() {
    out_ = "graph @" + quoted_name(graph_.name);
    if (!graph_.metadata.all().empty()) out_ += " " + ops::attributes_to_string(graph_.metadata);
    out_ += " {\n";
    for (const auto& state : graph_.states) print_state(state);
    for (const ValueId id : graph_.body.parameters) {
      const Value& value = graph_.value(id);
      names_[static_cast<size_t>(id)] = "%" + quoted_name(value.name);
      out_ += "  input " + name(id) + " : " + value.type.to_string() + "\n";
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) print_leaf(static_cast<ValueId>(i));
    print_nodes(graph_.body, 1);
    for (size_t i = 0; i < graph_.output_names.size(); ++i) {
      out_ += "  output " + quoted_name(graph_.output_names[i]) + " = " + name(graph_.body.yields[i]) + "\n";
    }
    return out_ + "}\n";
  }

 private:
  const std::string& name(ValueId id) const { return names_[static_cast<size_t>(id)]; }

  void print_state(const ops::StateDecl& state) {
    ops::Attributes facts;
    facts.set("owner", std::string(ops::state_owner_name(state.owner)));
    facts.set("rewind", std::string(ops::rewind_name(state.rewind)));
    if (state.window != 0) facts.set("window", state.window);
    if (state.keep != 0) facts.set("keep", state.keep);
    if (state.rate != 1) facts.set("rate", state.rate);
    if (!state.shared_with.empty()) facts.set("shared_with", state.shared_with);
    out_ += "  state " + quoted_name(state.name) + " = " + std::string(ops::state_kind_name(state.kind)) + " " +
            ops::attributes_to_string(facts) + " (";
    for (size_t i = 0; i < state.components.size(); ++i) {
      const auto& part = state.components[i];
      out_ += (i == 0 ? "" : ", ") + quoted_name(part.name) + ": " + std::string(tensor::dtype_name(part.dtype)) + "[" +
              std::to_string(part.heads) + " x " + std::to_string(part.width) + "]";
    }
    out_ += ")\n";
  }

  void print_leaf(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.kind == Value::Kind::kState) names_[static_cast<size_t>(id)] = "$" + quoted_name(value.name);
    if (value.kind != Value::Kind::kWeight) return;
    names_[static_cast<size_t>(id)] = "@" + quoted_name(value.name);
    out_ += "  weight " + name(id) + " : " + value.type.to_string();
    const auto source = graph_.weight_sources.find(value.name);
    if (source != graph_.weight_sources.end() && source->second.tensor != value.name) {
      out_ += " from " + quoted_string(source->second.tensor);
    }
    out_ += "\n";
  }

  void number(ValueId id) { names_[static_cast<size_t>(id)] = "%" + std::to_string(next_++); }

  void print_nodes(const Region& region, size_t depth) {
    const std::string indent(2 * depth, ' ');
    for (const NodeId id : region.nodes) {
      const Node& node = graph_.node(id);
      for (const ValueId result : node.results) number(result);
      out_ += indent;
      for (size_t i = 0; i < node.results.size(); ++i) out_ += (i == 0 ? "" : ", ") + name(node.results[i]);
      out_ += " = " + std::string(ops::op_name(node.op));
      for (size_t i = 0; i < node.operands.size(); ++i) out_ += (i == 0 ? " " : ", ") + name(node.operands[i]);
      if (!node.attributes.all().empty()) out_ += " " + ops::attributes_to_string(node.attributes);
      out_ += " : ";
      for (size_t i = 0; i < node.results.size(); ++i) {
        out_ += (i == 0 ? "" : ", ") + graph_.value(node.results[i]).type.to_string();
      }
      for (const Region& inner : node.regions) print_region(inner, depth);
      if (with_scopes_ && !node.scope.empty()) out_ += "  # " + node.scope;
      out_ += "\n";
    }
  }

  void print_region(const Region& region, size_t depth) {
    const std::string indent(2 * depth, ' ');
    out_ += " {\n" + indent + "  (";
    for (size_t i = 0; i < region.parameters.size(); ++i) {
      number(region.parameters[i]);
      out_ += (i == 0 ? "" : ", ") + name(region.parameters[i]) + ": " +
              graph_.value(region.parameters[i]).type.to_string();
    }
    out_ += ")\n";
    print_nodes(region, depth + 1);
    out_ += indent + "  yield";
    for (size_t i = 0; i < region.yields.size(); ++i) out_ += (i == 0 ? " " : ", ") + name(region.yields[i]);
    out_ += "\n" + indent + "}";
  }

  const Graph& graph_;
  bool with_scopes_;
  std::vector<std::string> names_;
  std::string out_;
  int64_t next_ = 0;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph, true).run(); }

uint64_t fingerprint(const Graph& graph) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, 64 bits
  for (const char c : Printer(graph, false).run()) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace firstlight::ir
