// SPDX-License-Identifier: Apache-2.0
// A matrix product of which all readers take slices becomes a product per slice, each with its rows of the weight, cut
// out at load: slices of columns lie apart in memory and would be copied for every token. Also where the columns are
// first seen as groups (reshape to [T, groups, columns]) and a slice takes some of each group. Merging of siblings puts
// the parts into one step again.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/weight_values.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::OpKind;

class Splitter {
 public:
  explicit Splitter(ir::Graph& graph)
      : graph_(graph),
        users_(ir::find_users(graph)),
        weight_only_(weight_only_values(graph)),
        replacement_(graph.values.size(), -1) {}

  Status run() {
    std::vector<ir::NodeId> order;
    for (const ir::NodeId id : std::vector<ir::NodeId>(graph_.body.nodes)) {
      if (graph_.node(id).op == OpKind::kLinear) FL_TRY(split(id, order));
      order.push_back(id);
    }
    size_t place = 0;
    while (place < order.size() && is_weight(graph_.node(order[place]).results[0])) ++place;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), made_.begin(), made_.end());
    graph_.body.nodes = std::move(order);
    ir::replace_uses(graph_, replacement_);
    ir::eliminate_dead_code(graph_);
    return ok_status();
  }

 private:
  bool is_weight(ir::ValueId id) const {
    return static_cast<size_t>(id) < weight_only_.size() && weight_only_[static_cast<size_t>(id)];
  }

  // The nodes that read the value, if all are slices of its last axis; empty: others do.
  std::vector<ir::NodeId> slices_of(ir::ValueId value) const {
    const int last = ops::rank(graph_.value(value).type) - 1;
    std::vector<ir::NodeId> slices;
    for (const ir::NodeId user : users_[static_cast<size_t>(value)]) {
      if (user < 0 || graph_.node(user).op != OpKind::kSlice) return {};
      if (ops::resolve_axis(graph_.node(user).attributes.get_int("axis"), last + 1) != last) return {};
      slices.push_back(user);
    }
    return slices;
  }

  // Puts the products of the parts into `order`, where `id` stands.
  Status split(ir::NodeId id, std::vector<ir::NodeId>& order) {
    const ir::Node linear = graph_.node(id);
    const ir::ValueId result = linear.results[0];
    const tensor::Type type = graph_.value(result).type;
    if (ops::rank(type) != 2 || is_weight(result) || !is_weight(linear.operands[1])) return ok_status();
    if (linear.operands.size() > 2 && !is_weight(linear.operands[2])) return ok_status();
    if (users_[static_cast<size_t>(linear.operands[1])].size() != 1) return ok_status();  // it is kept whole anyway
    const auto& users = users_[static_cast<size_t>(result)];
    int64_t groups = 1;
    ir::ValueId sliced = result;
    if (users.size() == 1 && users[0] >= 0 && graph_.node(users[0]).op == OpKind::kReshape) {
      sliced = graph_.node(users[0]).results[0];
      const tensor::Shape& shape = graph_.value(sliced).type.shape;
      if (shape.size() != 3 || shape[0] != type.shape[0] || !shape[1].is_static()) return ok_status();
      groups = shape[1].factor;
    }
    const auto slices = slices_of(sliced);
    const tensor::Dim columns = ops::last_dim(graph_.value(sliced).type);
    int64_t taken = 0;
    for (const ir::NodeId slice : slices) {
      taken += ops::last_dim(graph_.value(graph_.node(slice).results[0]).type).factor;
    }
    if (slices.empty() || !columns.is_static() || taken > columns.factor) return ok_status();
    for (const ir::NodeId slice : slices) FL_TRY(make_part(linear, graph_.node(slice), groups, columns.factor, order));
    return ok_status();
  }

  Status make_part(const ir::Node& linear, ir::Node slice, int64_t groups, int64_t columns,
                   std::vector<ir::NodeId>& order) {
    const ops::SliceRange range = ops::slice_range(slice.attributes, columns);
    std::vector<ir::ValueId> operands = {linear.operands[0]};
    for (size_t i = 1; i < linear.operands.size(); ++i) {
      operands.push_back(FL_TRY(cut(linear.operands[i], range, groups, columns)));
    }
    const ir::NodeId part =
        FL_TRY(ir::create_node(graph_, OpKind::kLinear, operands, linear.attributes, {}, linear.scope));
    order.push_back(part);
    ir::ValueId value = graph_.node(part).results[0];
    const tensor::Type wanted = graph_.value(slice.results[0]).type;
    if (graph_.value(value).type != wanted) {
      value = FL_TRY(reshaped(value, wanted.shape, order, slice.scope));
    }
    replacement_[static_cast<size_t>(slice.results[0])] = value;
    return ok_status();
  }

  // Rows of a weight [groups * columns, K], or elements of a bias, that the range takes of each group.
  Result<ir::ValueId> cut(ir::ValueId weight, const ops::SliceRange& range, int64_t groups, int64_t columns) {
    tensor::Shape inner = graph_.value(weight).type.shape;
    inner.erase(inner.begin());
    tensor::Shape grouped = {tensor::Dim(groups), tensor::Dim(columns)};
    grouped.insert(grouped.end(), inner.begin(), inner.end());
    ir::ValueId value = groups == 1 ? weight : FL_TRY(reshaped(weight, grouped, made_, "weights"));
    ops::Attributes attributes;
    attributes.set("axis", groups == 1 ? int64_t{0} : int64_t{1});
    attributes.set("start", range.start);
    attributes.set("stop", range.stop);
    attributes.set("step", range.step);
    const std::vector<ir::ValueId> operands = {value};
    const ir::NodeId slice =
        FL_TRY(ir::create_node(graph_, OpKind::kSlice, operands, std::move(attributes), {}, "weights"));
    made_.push_back(slice);
    value = graph_.node(slice).results[0];
    if (groups == 1) return value;
    tensor::Shape flat = {tensor::Dim(groups * graph_.value(value).type.shape[1].factor)};
    flat.insert(flat.end(), inner.begin(), inner.end());
    return reshaped(value, flat, made_, "weights");
  }

  Result<ir::ValueId> reshaped(ir::ValueId value, const tensor::Shape& shape, std::vector<ir::NodeId>& order,
                               const std::string& scope) {
    std::string text;
    for (const tensor::Dim& dim : shape) text += (text.empty() ? "" : ",") + dim.to_string();
    ops::Attributes attributes;
    attributes.set("shape", std::move(text));
    const std::vector<ir::ValueId> operands = {value};
    const ir::NodeId made =
        FL_TRY(ir::create_node(graph_, OpKind::kReshape, operands, std::move(attributes), {}, scope));
    order.push_back(made);
    return graph_.node(made).results[0];
  }

  ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<bool> weight_only_;
  std::vector<ir::ValueId> replacement_;
  std::vector<ir::NodeId> made_;  // of weights alone
};

}  // namespace

Status split_products(ir::Graph& graph, const CompileOptions& options) {
  if (options.plain_kernels) return ok_status();  // weights are not repacked: parts would be copies to keep
  FL_TRY(hoist_weight_nodes(graph, options));
  return Splitter(graph).run();
}

}  // namespace firstlight::compiler
