// SPDX-License-Identifier: Apache-2.0
#include "intake/features.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace firstlight::intake {
namespace {

constexpr size_t kMaxOperands = 6;     // of a node whose sizes are compared; stacks have hundreds
constexpr double kLargestFactor = 64;  // whole constants of formulas from here up are positions, not factors

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

// Calls visit(part, start) for each dotted part.
void for_parts(const std::string& name, const std::function<void(const std::string&, size_t)>& visit) {
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    visit(name.substr(at, dot - at), at);
    at = dot + 1;
  }
}

const char* size_class(double value) { return value < 0 ? "-" : value == 0 ? "0" : value == 1 ? "1" : "+"; }

std::string expression_class(const ops::Expression& expression) {
  std::string text;
  for (const ops::ExprTerm& term : expression.terms()) {
    text +=
        std::string(ops::expr_op_name(term.op)) + (term.op == ops::ExprOp::kConstant ? size_class(term.constant) : "");
    for (const int32_t arg : term.args) text += "," + std::to_string(arg);
    text += "," + std::to_string(term.input) + ";";
  }
  return text;
}

// An attribute without its sizes.
std::string attribute_class(const ops::Attribute& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return size_class(static_cast<double>(*number));
  if (const auto* number = std::get_if<double>(&value)) return size_class(*number);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    // Of a rope: a single frequency is 1 whatever the base; columns that do not turn have frequency 0.
    const auto zeros = std::count(list->begin(), list->end(), 0.0);
    const auto others = static_cast<std::ptrdiff_t>(list->size()) - zeros;
    return std::string(others == 0 ? "none" : others == 1 ? "one" : "some") + (zeros > 0 ? " and zeros" : "");
  }
  if (const auto* expression = std::get_if<ops::Expression>(&value)) return expression_class(*expression);
  std::string text;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t item : *list) text += size_class(static_cast<double>(item));
    return text;
  }
  if (const auto* list = std::get_if<std::vector<ops::Expression>>(&value)) {
    for (const ops::Expression& item : *list) text += expression_class(item) + "|";
    return text;
  }
  for (const char c : ops::attribute_to_string(value)) {  // "T,32,128" has sizes too
    const bool digit = c >= '0' && c <= '9';
    if (!digit || text.empty() || text.back() != '#') text += digit ? '#' : c;
  }
  return text;
}

std::string hash_of(const std::string& text) {
  char out[20];
  std::snprintf(out, sizeof out, "%016zx", std::hash<std::string>{}(text));
  return out;
}

class Collector {
 public:
  explicit Collector(const Trace& trace) : trace_(trace), graph_(trace.graph) {}

  Features run() {
    for (const std::string& jump : trace_.jumps) out_.all.insert("jump " + jump);
    for (const ops::StateDecl& state : graph_.states) add_state(state);
    for (const ir::Value& value : graph_.values) {
      if (value.kind == ir::Value::Kind::kWeight) add_weight(value);
    }
    add_region(graph_.body);
    for (const auto& [what, values] : variants_) {
      if (values.size() > 1) out_.all.insert("varies " + what);
    }
    finish_layers();
    if (!graph_.body.yields.empty()) {
      const tensor::Shape& shape = graph_.value(graph_.body.yields[0]).type.shape;
      if (!shape.empty()) out_.logits_width = shape.back().factor;
    }
    return std::move(out_);
  }

 private:
  struct Layer {
    std::string scope, signature, description;
  };

  void add_state(const ops::StateDecl& state) {
    std::string text = "state " + std::string(ops::state_kind_name(state.kind)) + " " + without_numbers(state.name) +
                       " " + std::string(ops::rewind_name(state.rewind)) + (state.window > 0 ? " window" : "") +
                       (state.rate > 1 ? " rate" : "") + (state.shared_with.empty() ? "" : " shared");
    out_.cost += static_cast<double>(state.window + state.rate);
    for (const ops::StateComponent& part : state.components) {
      text += " " + part.name;
      variants_[without_numbers(state.name) + " " + part.name].insert(std::to_string(part.heads) + "x" +
                                                                      std::to_string(part.width));
      out_.cost += static_cast<double>(part.heads * part.width);
    }
    variants_[without_numbers(state.name) + " window"].insert(std::to_string(state.window));
    out_.all.insert(text);
  }

  void add_weight(const ir::Value& weight) {
    const std::string name = without_numbers(weight.name);
    out_.all.insert("weight " + name + " of " + std::to_string(weight.type.shape.size()) + " axes");
    variants_["shape of " + name].insert(tensor::shape_to_string(weight.type.shape));
    out_.weights += tensor::num_elements(weight.type.shape);
    out_.cost += static_cast<double>(tensor::num_elements(weight.type.shape));
    add_to_layer(weight.name, "@" + name + std::to_string(weight.type.shape.size()), "");
  }

  void add_region(const ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph_.node(id);
      add_node(node);
      for (const ir::Region& inner : node.regions) add_region(inner);
    }
  }

  void add_node(const ir::Node& node) {
    const std::string where = without_numbers(node.scope) + " " + std::string(ops::op_name(node.op));
    std::string signature = where, weights;
    std::vector<std::pair<std::string, int64_t>> sizes;
    for (const auto& [name, value] : node.attributes.all()) {
      signature += " " + name + "=" + attribute_class(value);
      variants_[where + " " + name].insert(hash_of(ops::attribute_to_string(value)));
      add_cost(name, value);
      const auto* number = std::get_if<int64_t>(&value);
      if (number != nullptr && name != "axis" && *number > 1) sizes.emplace_back(name, *number);
    }
    for (size_t i = 0; i < node.operands.size() && i < kMaxOperands; ++i) {
      const ir::Value& value = graph_.value(node.operands[i]);
      const tensor::Type& type = value.type;
      if (node.operands.size() > kMaxOperands) break;
      if (value.kind == ir::Value::Kind::kWeight) weights += " @" + without_numbers(value.name);
      for (size_t axis = 0; axis < type.shape.size(); ++axis) {
        if (!type.shape[axis].is_static()) continue;
        sizes.emplace_back(std::to_string(i) + "." + std::to_string(axis), type.shape[axis].factor);
      }
    }
    add_sizes(where + weights, sizes);
    out_.all.insert("node " + signature);
    const ir::Value* last = node.operands.empty() ? nullptr : &graph_.value(node.operands.back());
    if (last != nullptr && last->name == "output_rows") return;  // stands behind the last layer, of whatever kind
    add_to_layer(node.scope, signature, std::string(ops::op_name(node.op)));
  }

  void add_cost(const std::string& name, const ops::Attribute& value) {
    if (const auto* number = std::get_if<int64_t>(&value); number != nullptr && name != "axis") {
      out_.cost += static_cast<double>(std::max<int64_t>(*number, 0));
    }
    const auto add = [&](const ops::Expression& expression) {
      for (const ops::ExprTerm& term : expression.terms()) {
        const bool whole = term.op == ops::ExprOp::kConstant && term.constant == std::floor(term.constant);
        if (whole && term.constant >= kLargestFactor && term.constant < 1e9) out_.cost += term.constant;
      }
    };
    if (const auto* expression = std::get_if<ops::Expression>(&value)) add(*expression);
    if (const auto* list = std::get_if<std::vector<ops::Expression>>(&value))
      std::for_each(list->begin(), list->end(), add);
  }

  // Sizes that differ must go on to differ, and more than one must stay so: else a transposed axis would not show.
  void add_sizes(const std::string& where, const std::vector<std::pair<std::string, int64_t>>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].second > 1) out_.all.insert("sizes " + where + ": " + sizes[i].first + " > 1");
      for (size_t j = 0; j < i; ++j) {
        if (sizes[i].second == sizes[j].second) continue;
        out_.all.insert("sizes " + where + ": " + sizes[j].first + " and " + sizes[i].first + " differ");
      }
    }
  }

  void add_to_layer(const std::string& scope, const std::string& signature, const std::string& op) {
    const std::string name = layer_of(scope);
    if (name.empty()) return;
    auto found =
        std::find_if(layers_.rbegin(), layers_.rend(), [&](const Layer& layer) { return layer.scope == name; });
    if (found == layers_.rend()) {
      layers_.push_back({name, "", ""});
      found = layers_.rbegin();
    }
    found->signature += signature + "\n";
    if (op.empty() || (", " + found->description + ", ").find(", " + op + ", ") != std::string::npos) return;
    found->description += (found->description.empty() ? "" : ", ") + op;
  }

  void finish_layers() {
    std::map<std::string, size_t> known;
    for (const Layer& layer : layers_) {
      const std::string hash = hash_of(layer.signature);
      const auto [it, fresh] = known.try_emplace(hash, out_.kinds.size());
      if (fresh) out_.kinds.push_back({hash, layer.description, {}});
      out_.kinds[it->second].scopes.push_back(layer.scope);
      out_.all.insert("layer " + hash + " (" + layer.description + ")");
    }
    out_.num_layers = static_cast<int64_t>(layers_.size());
    if (layers_.size() > 1) out_.all.insert("two layers or more");
  }

  const Trace& trace_;
  const ir::Graph& graph_;
  Features out_;
  std::vector<Layer> layers_;
  std::map<std::string, std::set<std::string>> variants_;
};

}  // namespace

std::string layer_of(const std::string& name) {
  std::string layer;
  for_parts(name, [&](const std::string& part, size_t at) {
    if (layer.empty() && is_number(part)) layer = name.substr(0, at + part.size());
  });
  return layer;
}

std::string without_numbers(const std::string& name) {
  std::string out;
  for_parts(name,
            [&](const std::string& part, size_t at) { out += (at == 0 ? "" : ".") + (is_number(part) ? "#" : part); });
  return out;
}

Features features_of(const Trace& trace) { return Collector(trace).run(); }

}  // namespace firstlight::intake
