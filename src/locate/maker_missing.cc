// SPDX-License-Identifier: Apache-2.0
// Steps that a spec leaves out: tensors of the layer that nothing reads, as a bias, a factor or a norm; rows of length
// one, activations, norms by groups.
#include <cmath>

#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

// "model.layers.3", "backbone.layers.0": up to the first number.
std::string layer_of(const std::string& name) {
  const size_t digit = name.find_first_of("0123456789");
  return digit == std::string::npos ? std::string() : name.substr(0, name.find('.', digit));
}

bool is_activation(const tensor::Type& type) { return type.dtype == tensor::DType::kF32 && type.shape.size() >= 2; }

EditStep norm_step(double eps) {
  EditStep step{.op = OpKind::kRmsNorm, .attributes = {}};
  step.attributes.set("eps", eps);
  return step;
}

void with_tensor(Draft& draft, size_t k, const std::string& name, const tensor::Type& of) {
  const bool is_norm = name.find("norm") != std::string::npos;
  const double eps = draft.config_or("eps", 1e-6);
  const auto read = [name, of, k](EditStep step) {
    return [name, of, k, step](ir::Graph& graph, ir::NodeId id) -> Status {
      EditStep with = step;
      with.more = {FL_TRY(read_tensor(graph, id, name, of))};
      return wrap_operand(graph, id, k, {with});
    };
  };
  const std::string what = ", which nothing reads";
  const std::string fix = "the spec leaves this tensor out";
  if (is_norm) {
    draft.add(Cause::kNorm, "a norm by " + name + what, fix, read(norm_step(eps)), 9);
    return;
  }
  const Cause cause = draft.here(Cause::kWeight);
  draft.add(cause, "plus " + name + what, fix, read(map_step("add(x0, x1)")), 10);
  draft.add(cause, "times " + name + what, fix, read(map_step("mul(x0, x1)")), 11);
}

// y + d x where the spec gives y: x is what the operator works on.
void skip_by_tensor(Draft& draft, const std::string& name, const tensor::Type& of) {
  for (const ir::ValueId x : draft.node.operands) {
    if (draft.type(x) != draft.type(draft.node.results[0]) || draft.is_weight(x)) continue;
    draft.add(
        Cause::kWeight, "the operand times " + name + " added, which nothing reads", "the spec leaves this tensor out",
        [name, of, x](ir::Graph& graph, ir::NodeId id) -> Status {
          const ir::ValueId factor = FL_TRY(read_tensor(graph, id, name, of));
          return wrap_result(graph, id, 0, {map_step("add(x0, mul(x1, x2))", {x, factor})});
        },
        12);
  }
}

}  // namespace

void unread_tensors(Draft& draft) {
  if (draft.hints.checkpoint == nullptr || draft.node.results.size() != 1) return;
  const std::string layer = layer_of(draft.node.scope);
  if (layer.empty()) return;
  for (const auto& [name, record] : draft.hints.checkpoint->tensors()) {
    if (!name.starts_with(layer + ".") || !record.dtype || record.shape.empty()) continue;
    const int64_t width = record.shape.back();
    if (draft.graph.weight_sources.contains(name) || record.num_elements() != width) continue;
    std::vector<tensor::Dim> shape(record.shape.begin(), record.shape.end());
    const auto of = tensor::Type::tensor(*record.dtype, shape);
    for (size_t k = 0; k < draft.node.operands.size() && k < 8; ++k) {
      const ir::ValueId operand = draft.node.operands[k];
      if (draft.is_weight(operand) || !is_activation(draft.type(operand))) continue;
      if (draft.last_dim(operand) == width) with_tensor(draft, k, name, of);
    }
    const tensor::Type& result = draft.type(draft.node.results[0]);
    if (is_activation(result) && draft.last_dim(draft.node.results[0]) == width) skip_by_tensor(draft, name, of);
  }
}

void missing_norm(Draft& draft) {
  if (draft.node.op == OpKind::kReshape || draft.node.op == OpKind::kMap) return;
  const double eps = draft.config_or("eps", 1e-6);
  for (size_t k = 0; k < draft.node.operands.size() && k < 4; ++k) {
    const ir::ValueId operand = draft.node.operands[k];
    if (draft.is_weight(operand) || !is_activation(draft.type(operand))) continue;
    const auto width = static_cast<double>(draft.last_dim(operand));
    const std::string of = "operand " + std::to_string(k + 1);
    const auto before = [k](std::vector<EditStep> steps) {
      return
          [k, steps = std::move(steps)](ir::Graph& graph, ir::NodeId id) { return wrap_operand(graph, id, k, steps); };
    };
    const std::string to_length = "mul(x0, " + number(1 / std::sqrt(width)) + ")";
    draft.words = "norm";
    draft.add(Cause::kNorm, of + " brought to length one", "the spec lacks this norm",
              before({norm_step(1e-6 / width), map_step(to_length)}), 31);
    draft.add(Cause::kNorm, of + " normalised", "the spec lacks this norm", before({norm_step(eps)}), 32);
  }
}

void missing_activation(Draft& draft) {
  if (draft.node.op == OpKind::kMap || draft.node.op == OpKind::kReshape || draft.node.results.empty()) return;
  if (!is_activation(draft.type(draft.node.results[0])) || draft.type(draft.node.results[0]).is_state()) return;
  draft.words = "act";
  for (const auto& [name, formula] : activations()) draft.insert(name + " behind it", formula, 33);
}

// A norm over all where groups are meant: with the weight behind it.
void norm_by_groups(Draft& draft) {
  const tensor::Type& type = draft.type(draft.node.results[0]);
  const bool one_group = type.shape.size() == 3 && type.shape[1] == tensor::Dim(1);
  if (type.shape.size() != 2 && !one_group) return;
  const int64_t width = draft.last_dim(draft.node.results[0]);
  std::set<int64_t> counts;
  for (const char* word : {"group", "num_attention_heads", "num_heads", "tp_size"}) {
    for (const double value : draft.numbers_with(word)) counts.insert(static_cast<int64_t>(value));
  }
  const double offset = draft.node.attributes.has("offset") ? draft.node.attributes.get_float("offset") : 0;
  for (const int64_t groups : counts) {
    if (groups < 2 || width % groups != 0 || groups == width) continue;
    draft.words = "group";
    draft.add(
        Cause::kNorm, "normalised in " + std::to_string(groups) + " groups", "the norm is of each group by itself",
        [groups, width, offset, one_group](ir::Graph& graph, ir::NodeId id) -> Status {
          const auto reshape = [](const std::string& shape) {
            EditStep step{.op = OpKind::kReshape, .attributes = {}};
            step.attributes.set("shape", shape);
            return step;
          };
          std::vector<EditStep> behind = {
              reshape(one_group ? "T,1," + std::to_string(width) : "T," + std::to_string(width))};
          if (graph.node(id).operands.size() > 1) {
            behind.push_back(map_step("mul(x0, add(x1, " + number(offset) + "))", {graph.node(id).operands[1]}));
            graph.node(id).operands.pop_back();
          }
          const std::string grouped = "T," + std::to_string(groups) + "," + std::to_string(width / groups);
          FL_TRY(wrap_operand(graph, id, 0, {reshape(grouped)}));
          const auto before = graph.node(id).operands[0];
          FL_TRY(wrap_result(graph, id, 0, behind, graph.value(before).type));
          return ok_status();
        },
        30);
  }
}

}  // namespace firstlight::locate
