// SPDX-License-Identifier: Apache-2.0
// rope of queries, rope of keys and append become one rope_append, the norms of heads in front of them with it: small
// steps that each would wait for the one before. Both ropes must turn alike and both norms be alike.
#include <algorithm>
#include <optional>

#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

// A head's rows on their way through norm and rope.
struct Turned {
  const ir::Node* rope = nullptr;
  const ir::Node* norm = nullptr;  // null: none
  ir::ValueId x = -1;              // what goes in
};

class Fuser {
 public:
  explicit Fuser(ir::Graph& graph)
      : graph_(graph),
        users_(ir::find_users(graph)),
        regions_(ir::region_numbers(graph)),
        replacement_(graph.values.size(), -1) {}

  Status visit(ir::Region& region) {
    place_.assign(graph_.nodes.size(), -1);
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      place_[static_cast<size_t>(region.nodes[i])] = static_cast<int64_t>(i);
    }
    const size_t count = region.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      if (graph_.node(region.nodes[i]).op != ops::OpKind::kAppend) continue;
      const auto made = FL_TRY(fuse(region.nodes[i]));
      if (made) region.nodes[i] = *made;
    }
    return ok_status();
  }

  void finish() {
    ir::replace_uses(graph_, replacement_);
    ir::eliminate_dead_code(graph_);
  }

 private:
  bool used_once(ir::ValueId id) const { return users_[static_cast<size_t>(id)].size() == 1; }

  const ir::Node* producer_here(ir::ValueId id) const {
    const ir::NodeId node = graph_.value(id).producer;
    return node < 0 || place_[static_cast<size_t>(node)] < 0 ? nullptr : &graph_.node(node);
  }

  std::optional<Turned> turned(ir::ValueId id) const {
    const ir::Node* rope = producer_here(id);
    if (rope == nullptr || rope->op != ops::OpKind::kRope || !used_once(id)) return std::nullopt;
    Turned found{rope, nullptr, rope->operands[0]};
    const ir::Node* norm = producer_here(found.x);
    if (norm != nullptr && norm->op == ops::OpKind::kRmsNorm && used_once(found.x) &&
        graph_.value(norm->operands[0]).type.dtype == tensor::DType::kF32) {
      found.norm = norm;
      found.x = norm->operands[0];
    }
    return found;
  }

  static bool alike(const Turned& q, const Turned& k) {
    if (!(q.rope->attributes == k.rope->attributes) || q.rope->operands[1] != k.rope->operands[1]) return false;
    if ((q.norm == nullptr) != (k.norm == nullptr)) return false;
    return q.norm == nullptr ||
           (q.norm->attributes == k.norm->attributes && q.norm->operands.size() == k.norm->operands.size());
  }

  // Whether the value is there where `at` stands.
  bool is_made_before(ir::ValueId id, ir::NodeId at) const {
    const ir::NodeId producer = graph_.value(id).producer;
    return producer < 0 || place_[static_cast<size_t>(producer)] < place_[static_cast<size_t>(at)];
  }

  // The queries of the first attend that reads the state, turned as the keys are; nullopt.
  std::optional<Turned> queries(const ir::Node& append, ir::NodeId append_id, const Turned& keys) const {
    for (const ir::NodeId user : users_[static_cast<size_t>(append.results[0])]) {
      if (user < 0 || graph_.node(user).op != ops::OpKind::kAttend || place_[static_cast<size_t>(user)] < 0) continue;
      auto q = turned(graph_.node(user).operands[0]);
      if (!q) continue;
      if (q->norm != nullptr && keys.norm == nullptr) {  // the norm stays in front
        q->x = q->rope->operands[0];
        q->norm = nullptr;
      }
      if (alike(*q, keys) && is_made_before(q->x, append_id)) return q;
    }
    return std::nullopt;
  }

  Result<std::optional<ir::NodeId>> fuse(ir::NodeId id) {
    const ir::Node append = graph_.node(id);
    const ops::StateDecl* state = graph_.state_of(append.operands[0]);
    const bool log = state->kind == ops::StateKind::kAppendLog || state->kind == ops::StateKind::kWindowLog;
    if (append.operands.size() != 3 || !log) return std::optional<ir::NodeId>();
    auto k = turned(append.operands[1]);
    if (!k) return std::optional<ir::NodeId>();
    auto q = queries(append, id, *k);
    if (!q && k->norm != nullptr) {
      k->norm = nullptr;
      k->x = k->rope->operands[0];
      q = queries(append, id, *k);
    }
    if (!q) return std::optional<ir::NodeId>();
    std::vector<ir::ValueId> operands = {append.operands[0], q->rope->operands[1], q->x, k->x, append.operands[2]};
    ops::Attributes attributes = q->rope->attributes;
    if (q->norm != nullptr) {
      attributes.set("norm", std::string("rms"));
      attributes.set("norm_eps", q->norm->attributes.get_float("eps"));
      attributes.set("norm_offset", q->norm->attributes.get_float("offset"));
      if (q->norm->operands.size() > 1) {
        operands.push_back(q->norm->operands[1]);
        operands.push_back(k->norm->operands[1]);
      }
    }
    const ir::ValueId old_queries = q->rope->results[0];
    const ir::NodeId made =
        FL_TRY(ir::create_node(graph_, ops::OpKind::kRopeAppend, operands, std::move(attributes), {}, append.scope));
    replacement_[static_cast<size_t>(old_queries)] = graph_.node(made).results[0];
    replacement_[static_cast<size_t>(append.results[0])] = graph_.node(made).results[1];
    return std::optional(made);
  }

  ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<int32_t> regions_;
  std::vector<ir::ValueId> replacement_;
  std::vector<int64_t> place_;  // of each node in the region being visited; -1: in another
};

}  // namespace

Status fuse_rope_appends(ir::Graph& graph, const CompileOptions&) {
  Fuser fuser(graph);
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (status.ok()) status = fuser.visit(region);
  });
  FL_TRY(std::move(status));
  fuser.finish();
  return ok_status();
}

}  // namespace firstlight::compiler
