// SPDX-License-Identifier: Apache-2.0
// Norms, softmaxes and reductions along rows take in the maps before and behind them, and each other, as one fused_rows
// step: a group of nodes over rows of one shape that no path leaves and enters again. One result each, or a few where
// the target wants residual sums with the norms that read them (fusion_rules.h).
#include <algorithm>
#include <set>

#include "base/check.h"
#include "compiler/fusion_rules.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/row_stages.h"
#include "compiler/weight_values.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::OpKind;

constexpr size_t kMaxMembers = 16;
constexpr size_t kMaxOperands = 24;
constexpr int kMaxDetour = 4;  // members taken in on the way to a group that is sound again

using Group = std::set<ir::NodeId>;

class Fuser {
 public:
  Fuser(ir::Graph& graph, const FusionRules& rules)
      : graph_(graph),
        users_(ir::find_users(graph)),
        weight_only_(weight_only_values(graph)),
        replacement_(graph.values.size(), -1),
        max_results_(rules.residual_with_norm ? 3 : 1) {}

  Status visit(ir::Region& region) {
    place_.assign(graph_.nodes.size(), -1);
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      place_[static_cast<size_t>(region.nodes[i])] = static_cast<int64_t>(i);
    }
    order_ = region.nodes;
    std::vector<ir::NodeId> now = region.nodes;  // what stands at each place; -1: nothing any more
    Group taken;
    for (const ir::NodeId id : order_) {
      if (taken.contains(id) || !is_seed(id)) continue;
      const Group group = grow(id, taken);
      if (group.size() < 2) continue;
      const ir::NodeId made = FL_TRY(fuse(group));
      for (const ir::NodeId member : group) now[static_cast<size_t>(place(member))] = -1;
      now[static_cast<size_t>(last_place(group))] = made;
      taken.insert(group.begin(), group.end());
    }
    std::erase(now, -1);
    region.nodes = std::move(now);
    return ok_status();
  }

  void finish() {
    ir::replace_uses(graph_, replacement_);
    ir::eliminate_dead_code(graph_);
  }

 private:
  int64_t place(ir::NodeId id) const {
    return id < 0 || static_cast<size_t>(id) >= place_.size() ? -1 : place_[static_cast<size_t>(id)];
  }
  int64_t first_place(const Group& group) const {
    int64_t first = place(*group.begin());
    for (const ir::NodeId id : group) first = std::min(first, place(id));
    return first;
  }
  int64_t last_place(const Group& group) const {
    int64_t last = -1;
    for (const ir::NodeId id : group) last = std::max(last, place(id));
    return last;
  }

  const tensor::Type& result_type(ir::NodeId id) const { return graph_.value(graph_.node(id).results[0]).type; }

  // Reductions of the last axis, float32 in.
  bool is_seed(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const bool norm = node.op == OpKind::kRmsNorm || node.op == OpKind::kLayerNorm || node.op == OpKind::kSoftmax;
    if (!norm && node.op != OpKind::kReduce) return false;
    const tensor::Type& x = graph_.value(node.operands[0]).type;
    if (!ops::is_f32(x) || ops::rank(x) < 2 || weight_only_[static_cast<size_t>(node.results[0])]) return false;
    if (norm) return true;
    if (!ops::row_reduce_from_name(node.attributes.get_string("op"))) return false;
    const int axis = ops::resolve_axis(node.attributes.get_int("axis"), ops::rank(x));
    return axis == ops::rank(x) - 1 && node.attributes.get_bool("keep") && ops::last_dim(x).is_static() &&
           ops::last_dim(x).factor > 1;
  }

  static tensor::Shape row_scalar(tensor::Shape shape) {
    if (!shape.empty()) shape.back() = tensor::Dim(1);
    return shape;
  }

  // Whether the node may join a group over rows of this shape.
  bool joins(ir::NodeId id, const tensor::Shape& rows) const {
    if (place(id) < 0) return false;
    const ir::Node& node = graph_.node(id);
    if (is_seed(id)) return graph_.value(node.operands[0]).type.shape == rows;
    if (node.op != OpKind::kMap || weight_only_[static_cast<size_t>(node.results[0])]) return false;
    const tensor::Shape& shape = result_type(id).shape;
    return shape == rows || shape == row_scalar(rows);
  }

  std::vector<ir::NodeId> neighbours(const Group& group, const tensor::Shape& rows, const Group& taken) const {
    std::vector<ir::NodeId> found;
    const auto consider = [&](ir::NodeId id) {
      if (id < 0 || group.contains(id) || taken.contains(id) || !joins(id, rows)) return;
      if (std::find(found.begin(), found.end(), id) == found.end()) found.push_back(id);
    };
    for (const ir::NodeId id : group) {
      for (const ir::NodeId user : users_[static_cast<size_t>(graph_.node(id).results[0])]) consider(user);
    }
    for (const ir::NodeId id : group) {
      for (const ir::ValueId operand : graph_.node(id).operands) consider(graph_.value(operand).producer);
    }
    return found;
  }

  // The largest sound group met while taking in neighbours, those first that keep the group sound.
  Group grow(ir::NodeId seed, const Group& taken) const {
    const tensor::Shape rows = graph_.value(graph_.node(seed).operands[0]).type.shape;
    Group group = {seed};
    Group best = group;
    int detour = 0;
    while (group.size() < kMaxMembers && detour < kMaxDetour) {
      const auto candidates = neighbours(group, rows, taken);
      if (candidates.empty()) break;
      const auto sound = std::find_if(candidates.begin(), candidates.end(), [&](ir::NodeId id) {
        Group with = group;
        with.insert(id);
        return is_sound(with, rows);
      });
      group.insert(sound == candidates.end() ? candidates[0] : *sound);
      detour = sound == candidates.end() ? detour + 1 : 0;
      if (is_sound(group, rows)) best = group;
    }
    return best;
  }

  std::vector<ir::ValueId> results_of(const Group& group) const {
    std::vector<ir::ValueId> results;
    for (const ir::NodeId id : by_place(group)) {
      const ir::ValueId result = graph_.node(id).results[0];
      const auto& users = users_[static_cast<size_t>(result)];
      if (std::any_of(users.begin(), users.end(), [&](ir::NodeId user) { return !group.contains(user); })) {
        results.push_back(result);
      }
    }
    return results;
  }

  std::vector<ir::NodeId> by_place(const Group& group) const {
    std::vector<ir::NodeId> members(group.begin(), group.end());
    std::sort(members.begin(), members.end(), [&](ir::NodeId a, ir::NodeId b) { return place(a) < place(b); });
    return members;
  }

  std::vector<ir::ValueId> operands_of_group(const Group& group) const {
    std::vector<ir::ValueId> operands;
    for (const ir::NodeId id : by_place(group)) {
      for (const ir::ValueId operand : graph_.node(id).operands) {
        const bool inside = group.contains(graph_.value(operand).producer) && graph_.value(operand).producer >= 0;
        if (!inside && std::find(operands.begin(), operands.end(), operand) == operands.end())
          operands.push_back(operand);
      }
    }
    return operands;
  }

  bool is_sound(const Group& group, const tensor::Shape& rows) const {
    const int64_t first = first_place(group), last = last_place(group);
    const auto results = results_of(group);
    if (results.empty() || results.size() > max_results_) return false;
    for (const ir::ValueId result : results) {
      for (const ir::NodeId user : users_[static_cast<size_t>(result)]) {
        if (user >= 0 && !group.contains(user) && place(user) < last) return false;  // of another region too
      }
      const ir::Node& node = graph_.node(graph_.value(result).producer);
      if (node.op == OpKind::kMap && graph_.value(result).type.shape != rows) return false;
    }
    const auto operands = operands_of_group(group);
    if (operands.size() > kMaxOperands) return false;
    // The rows' shape must come out of the operands.
    tensor::Shape shape;
    for (const ir::ValueId operand : operands) {
      const tensor::Type& type = graph_.value(operand).type;
      if (!ops::is_plain(type) || !ops::broadcast_onto(shape, type.shape)) return false;
    }
    return shape == rows && !is_entered_again(group, operands, first, last);
  }

  // Whether an operand depends on a member: all that stands between first and last and reads one, or reads that.
  bool is_entered_again(const Group& group, const std::vector<ir::ValueId>& operands, int64_t first,
                        int64_t last) const {
    std::set<ir::ValueId> tainted;
    for (int64_t at = first; at <= last; ++at) {
      const ir::NodeId id = order_[static_cast<size_t>(at)];
      const ir::Node& node = graph_.node(id);
      const bool reads =
          !node.regions.empty() || std::any_of(node.operands.begin(), node.operands.end(), [&](ir::ValueId o) {
            return tainted.contains(o) || (graph_.value(o).producer >= 0 && group.contains(graph_.value(o).producer));
          });
      if (!group.contains(id) && reads) tainted.insert(node.results.begin(), node.results.end());
    }
    return std::any_of(operands.begin(), operands.end(), [&](ir::ValueId o) { return tainted.contains(o); });
  }

  Result<ir::NodeId> fuse(const Group& group) {
    const auto operands = operands_of_group(group);
    const auto results = results_of(group);
    RowStages stages(operands);
    for (const ir::NodeId id : by_place(group)) FL_TRY(stages.add(graph_.node(id)));
    const std::string scope = graph_.node(by_place(group).back()).scope;
    const ir::NodeId made =
        FL_TRY(ir::create_node(graph_, OpKind::kFusedRows, operands, stages.attributes(results), {}, scope));
    for (size_t i = 0; i < results.size(); ++i) {
      replacement_[static_cast<size_t>(results[i])] = graph_.node(made).results[i];
    }
    return made;
  }

  ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<bool> weight_only_;
  std::vector<ir::ValueId> replacement_;
  size_t max_results_;
  std::vector<int64_t> place_;     // of each node in the region being visited; -1: in another
  std::vector<ir::NodeId> order_;  // of that region, before anything was fused
};

}  // namespace

Status fuse_rows(ir::Graph& graph, const CompileOptions& options) {
  Fuser fuser(graph, fusion_rules(options.execution));
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (status.ok()) status = fuser.visit(region);
  });
  FL_TRY(std::move(status));
  fuser.finish();
  return ok_status();
}

}  // namespace firstlight::compiler
