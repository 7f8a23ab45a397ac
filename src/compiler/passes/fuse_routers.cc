// SPDX-License-Identifier: Apache-2.0
// linear, score, (correction, groups,) top_k, gather, renormalisation and scale of a mixture of experts become one
// route step. The parts must have no readers beside each other; what does not fit at the end (a further formula) stays
// behind.
#include <algorithm>
#include <set>

#include "compiler/passes/passes.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::Expression;
using ops::OpKind;

// One router on its way into a route node.
struct Router {
  ir::ValueId x = -1, weight = -1, bias = -1, correction = -1;
  ir::ValueId logits = -1;  // of the product
  ir::ValueId scores = -1;  // from which weights are taken
  ir::ValueId result = -1;  // the last value of the weights
  std::string score = "none", after = "none", compute;
  int64_t groups = 1, top_groups = 1, group_best = 1;
  double eps = 0, scale = 1;
  std::set<ir::NodeId> parts;  // all but the product: what no one else may read
};

bool is_formula(const ir::Node* node, const char* text) {
  return node != nullptr && node->op == OpKind::kMap && node->attributes.get_expression("expr").to_string() == text;
}

class Matcher {
 public:
  explicit Matcher(const ir::Graph& graph)
      : graph_(graph), users_(ir::find_users(graph)), regions_(ir::region_numbers(graph)) {}

  // The router whose choice is `top_k`; nullopt.
  std::optional<Router> match(ir::NodeId top_k) const {
    const ir::Node& choice = graph_.node(top_k);
    if (users_[static_cast<size_t>(choice.results[1])].empty()) return std::nullopt;
    Router r;
    r.parts.insert(top_k);
    ir::ValueId value = choice.operands[0];
    if (ops::rank(graph_.value(value).type) != 2) return std::nullopt;
    if (!take_groups(value, r)) return std::nullopt;
    take_correction(value, r);
    r.scores = value;
    take_score(value, r);
    if (!take_product(value, r)) return std::nullopt;
    if (!take_weights(choice, r)) return std::nullopt;
    take_after(r);
    take_scale(r);
    return is_closed(r, choice, regions_[static_cast<size_t>(top_k)]) ? std::optional(r) : std::nullopt;
  }

 private:
  const ir::Node* producer(ir::ValueId id) const {
    const ir::NodeId node = graph_.value(id).producer;
    return node < 0 ? nullptr : &graph_.node(node);
  }
  ir::NodeId producer_id(ir::ValueId id) const { return graph_.value(id).producer; }

  const ir::Node* producer_of(ir::ValueId id, OpKind op) const {
    const ir::Node* node = producer(id);
    return node != nullptr && node->op == op ? node : nullptr;
  }

  bool is_vector(ir::ValueId id, const tensor::Dim& size) const {
    return ops::is_plain_float(graph_.value(id).type) && ops::has_shape(graph_.value(id).type, {size});
  }

  // reshape(where(mask of kept groups, grouped, -3e38)): moves `value` to what is grouped. False: it looks like that
  // and is something else.
  bool take_groups(ir::ValueId& value, Router& r) const {
    const ir::Node* flat = producer_of(value, OpKind::kReshape);
    if (flat == nullptr) return true;
    const ir::Node* masked = producer(flat->operands[0]);
    if (!is_formula(masked, "where(x0, x1, -3e+38)") || masked->operands.size() != 2) return false;
    const ir::Node* grouped = producer_of(masked->operands[1], OpKind::kReshape);
    const ir::Node* mask = producer_of(masked->operands[0], OpKind::kReshape);
    const ir::Node* kept_mask = mask == nullptr ? nullptr : producer_of(mask->operands[0], OpKind::kIndexMask);
    const ir::Node* kept = kept_mask == nullptr ? nullptr : producer_of(kept_mask->operands[0], OpKind::kTopK);
    const ir::Node* sums = kept == nullptr ? nullptr : producer_of(kept->operands[0], OpKind::kReduce);
    if (grouped == nullptr || sums == nullptr || kept_mask->operands[0] != kept->results[1]) return false;
    const tensor::Type& type = graph_.value(grouped->results[0]).type;
    if (ops::rank(type) != 3 || !type.shape[1].is_static()) return false;
    r.groups = type.shape[1].factor;
    r.top_groups = kept->attributes.get_int("k");
    if (kept_mask->attributes.get_int("size") != r.groups) return false;
    const ir::Node* best = producer_of(sums->operands[0], OpKind::kTopK);
    const std::string& reduce = sums->attributes.get_string("op");
    if (best != nullptr && best->operands[0] == grouped->results[0] && best->results[0] == sums->operands[0] &&
        reduce == "sum") {
      r.group_best = best->attributes.get_int("k");
      r.parts.insert(producer_id(best->results[0]));
    } else if (reduce != "max" || sums->operands[0] != grouped->results[0]) {
      return false;
    }
    for (const ir::Node* part : {flat, masked, grouped, mask, kept_mask, kept, sums}) {
      r.parts.insert(producer_id(part->results[0]));
    }
    value = grouped->operands[0];
    return true;
  }

  void take_correction(ir::ValueId& value, Router& r) const {
    const ir::Node* sum = producer(value);
    if (!is_formula(sum, "add(x0, x1)") || sum->operands.size() != 2) return;
    const tensor::Dim width = ops::last_dim(graph_.value(value).type);
    for (size_t i = 0; i < 2; ++i) {
      if (!is_vector(sum->operands[i], width)) continue;
      r.correction = sum->operands[i];
      r.parts.insert(producer_id(value));
      value = sum->operands[1 - i];
      return;
    }
  }

  void take_score(ir::ValueId& value, Router& r) const {
    const ir::Node* node = producer(value);
    if (node == nullptr) return;
    const bool softmax = node->op == OpKind::kSoftmax;
    if (!softmax && !(is_formula(node, "sigmoid(x0)") && node->operands.size() == 1)) return;
    r.score = softmax ? "softmax" : "sigmoid";
    r.parts.insert(producer_id(value));
    value = node->operands[0];
  }

  bool take_product(ir::ValueId value, Router& r) const {
    const ir::Node* linear = producer_of(value, OpKind::kLinear);
    if (linear == nullptr || ops::rank(graph_.value(linear->operands[0]).type) != 2) return false;
    r.logits = value;
    r.x = linear->operands[0];
    r.weight = linear->operands[1];
    if (linear->operands.size() > 2) r.bias = linear->operands[2];
    r.compute = linear->attributes.get_string("compute");
    return ops::is_f32(graph_.value(r.x).type);
  }

  // The chosen scores: gathered, or top_k's own values where it chose by the scores themselves.
  bool take_weights(const ir::Node& choice, Router& r) const {
    for (const ir::NodeId user : users_[static_cast<size_t>(choice.results[1])]) {
      if (user < 0) continue;
      const ir::Node& node = graph_.node(user);
      if (node.op != OpKind::kGatherLast || node.operands[0] != r.scores) continue;
      r.parts.insert(user);
      r.result = node.results[0];
      return true;
    }
    if (r.correction >= 0 || r.groups > 1) return false;
    r.result = choice.results[0];
    return true;
  }

  const ir::Node* only_user(ir::ValueId id) const {
    const auto& users = users_[static_cast<size_t>(id)];
    return users.size() == 1 && users[0] >= 0 ? &graph_.node(users[0]) : nullptr;
  }

  void take_after(Router& r) const {
    const ir::Node* user = only_user(r.result);
    if (user != nullptr && user->op == OpKind::kSoftmax) {
      r.after = "softmax";
      r.result = user->results[0];
      r.parts.insert(producer_id(r.result));
      return;
    }
    const auto& users = users_[static_cast<size_t>(r.result)];
    if (users.size() != 2 || users[0] < 0 || users[1] < 0) return;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Node& sum = graph_.node(users[i]);
      if (sum.op != OpKind::kReduce || sum.attributes.get_string("op") != "sum" || !sum.attributes.get_bool("keep"))
        continue;
      if (ops::resolve_axis(sum.attributes.get_int("axis"), 2) != 1) continue;
      if (take_quotient(users[1 - i], sum.results[0], r)) {
        r.parts.insert(users[i]);
        return;
      }
    }
  }

  // w / sum or w / (sum + eps), the sum of the quotient's node perhaps made in a map of its own.
  bool take_quotient(ir::NodeId id, ir::ValueId sum, Router& r) const {
    const ir::Node* node = &graph_.node(id);
    double eps = 0;
    ir::ValueId divisor = sum;
    if (const ir::Node* plus = only_user(sum);
        plus != nullptr && plus->op == OpKind::kMap && plus->operands.size() == 1) {
      const auto terms = plus->attributes.get_expression("expr").terms();
      if (terms.size() != 3 || terms[2].op != ops::ExprOp::kAdd) return false;
      for (const ops::ExprTerm& term : terms) {
        if (term.op == ops::ExprOp::kConstant) eps = term.constant;
      }
      divisor = plus->results[0];
    }
    if (node->op != OpKind::kMap || node->operands != std::vector<ir::ValueId>{r.result, divisor}) return false;
    const Expression& expr = node->attributes.get_expression("expr");
    const auto terms = expr.terms();
    if (terms.back().op != ops::ExprOp::kDiv) return false;
    if (terms.size() == 5) {  // x0 / (x1 + eps)
      const ops::ExprTerm& plus = terms[static_cast<size_t>(terms.back().args[1])];
      if (plus.op != ops::ExprOp::kAdd || divisor != sum) return false;
      for (const ops::ExprTerm& term : terms) {
        if (term.op == ops::ExprOp::kConstant) eps = term.constant;
      }
    } else if (expr.to_string() != "div(x0, x1)") {
      return false;
    }
    if (divisor != sum) r.parts.insert(producer_id(divisor));
    r.after = "sum";
    r.eps = eps;
    r.result = node->results[0];
    r.parts.insert(id);
    return true;
  }

  void take_scale(Router& r) const {
    const ir::Node* user = only_user(r.result);
    if (user == nullptr || user->op != OpKind::kMap || user->operands.size() != 1) return;
    const auto terms = user->attributes.get_expression("expr").terms();
    if (terms.size() != 3 || terms[2].op != ops::ExprOp::kMul) return;
    for (const ops::ExprTerm& term : terms) {
      if (term.op == ops::ExprOp::kConstant) r.scale = term.constant;
    }
    r.result = user->results[0];
    r.parts.insert(producer_id(r.result));
  }

  // Whether everything stands in one region and nobody else reads what is in between.
  bool is_closed(const Router& r, const ir::Node& choice, int32_t region) const {
    std::set<ir::NodeId> parts = r.parts;
    parts.insert(producer_id(r.logits));
    for (const ir::NodeId id : parts) {
      if (regions_[static_cast<size_t>(id)] != region) return false;
      for (const ir::ValueId result : graph_.node(id).results) {
        if (result == r.result || result == choice.results[1]) continue;
        for (const ir::NodeId user : users_[static_cast<size_t>(result)]) {
          if (!parts.contains(user)) return false;
        }
      }
    }
    return true;
  }

  const ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<int32_t> regions_;
};

Result<ir::NodeId> make_route(ir::Graph& graph, const Router& r, int64_t k, const std::string& scope) {
  ops::Attributes a;
  a.set("k", k);
  a.set("score", r.score);
  a.set("bias", r.bias >= 0);
  a.set("correction", r.correction >= 0);
  a.set("groups", r.groups);
  a.set("top_groups", r.top_groups);
  a.set("group_best", r.group_best);
  a.set("after", r.after);
  a.set("eps", r.eps);
  a.set("scale", r.scale);
  a.set("compute", r.compute);
  std::vector<ir::ValueId> operands = {r.x, r.weight};
  if (r.bias >= 0) operands.push_back(r.bias);
  if (r.correction >= 0) operands.push_back(r.correction);
  return ir::create_node(graph, OpKind::kRoute, operands, std::move(a), {}, scope);
}

}  // namespace

Status fuse_routers(ir::Graph& graph, const CompileOptions&) {
  const Matcher matcher(graph);
  std::vector<ir::ValueId> replacement(graph.values.size(), -1);
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    for (ir::NodeId& id : region.nodes) {
      if (!status.ok() || graph.node(id).op != OpKind::kTopK) continue;
      const auto router = matcher.match(id);
      if (!router) continue;
      const ir::Node choice = graph.node(id);
      const auto made = make_route(graph, *router, choice.attributes.get_int("k"), choice.scope);
      if (!made.ok()) {
        status = made.status();
        continue;
      }
      replacement[static_cast<size_t>(router->result)] = graph.node(*made).results[0];
      replacement[static_cast<size_t>(choice.results[1])] = graph.node(*made).results[1];
      id = *made;
    }
  });
  FL_TRY(std::move(status));
  ir::replace_uses(graph, replacement);
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
