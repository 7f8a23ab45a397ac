// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>

namespace firstlight::text::grammar {
namespace {

// A bounded repeat is written out while its copies have no more nodes than this; beyond it is counted.
constexpr int32_t kMostCopies = 4;

enum class EdgeKind : uint8_t { kByte, kJump, kCall };

struct Edge {
  NodeId from, to;
  EdgeKind kind;
  uint8_t first = 0, last = 0;
  CallEdge call{};
};

std::string named(const Rule& rule) { return "rule '" + rule.name + "'"; }

}  // namespace

class AutomatonBuilder {
 public:
  AutomatonBuilder(const Grammar& grammar, Automaton::Limits limits) : grammar_(grammar), limits_(limits) {}

  Result<Automaton> build() {
    FL_TRY(Status(grammar_.status()));
    for (size_t i = 0; i < grammar_.rules().size(); ++i) add_rule();
    for (size_t i = 0; i < grammar_.rules().size(); ++i) {
      const Rule& rule = grammar_.rules()[i];
      if (rule.body < 0) return invalid_argument(named(rule) + " is used and not defined");
      connect(rules_[i].start, rules_[i].end, rule.body);
    }
    if (num_nodes_ > limits_.max_nodes) {
      return invalid_argument("the constraint is too large: more than " + std::to_string(limits_.max_nodes) +
                              " states");
    }
    find_empty();
    const std::vector<bool> live = reach_back(true);
    const auto root = static_cast<size_t>(grammar_.root());
    if (!live[static_cast<size_t>(rules_[root].start)]) return invalid_argument("no text matches the constraint");
    std::erase_if(edges_, [&](const Edge& edge) {
      const bool calls_live = edge.kind != EdgeKind::kCall || live[start_of(edge)] || edge.call.min == 0;
      return !live[static_cast<size_t>(edge.to)] || !calls_live;
    });
    Automaton automaton = flatten();
    FL_TRY(check_left_recursion(automaton));
    return automaton;
  }

 private:
  NodeId add_node() { return static_cast<NodeId>(num_nodes_++); }
  size_t start_of(const Edge& edge) const {
    return static_cast<size_t>(rules_[static_cast<size_t>(edge.call.rule)].start);
  }

  int32_t add_rule() {
    const NodeId start = add_node();
    rules_.push_back({start, add_node()});
    return static_cast<int32_t>(rules_.size()) - 1;
  }

  void add_byte(NodeId from, NodeId to, uint8_t first, uint8_t last) {
    edges_.push_back({.from = from, .to = to, .kind = EdgeKind::kByte, .first = first, .last = last});
  }
  void jump(NodeId from, NodeId to) { edges_.push_back({.from = from, .to = to, .kind = EdgeKind::kJump}); }
  void add_call(NodeId from, NodeId to, int32_t rule, int32_t min, int32_t max) {
    edges_.push_back({.from = from, .to = to, .kind = EdgeKind::kCall, .call = {rule, to, min, max}});
  }

  // Makes every text of the expression a way from `from` to `to`. No edge into `from` or out of `to` is added, so that
  // both can be shared with what stands beside.
  void connect(NodeId from, NodeId to, ExprId id) {
    if (num_nodes_ > limits_.max_nodes || edges_.size() > 4 * limits_.max_nodes) {
      num_nodes_ = limits_.max_nodes + 1;
      return;
    }
    const Expr& expr = grammar_.expr(id);
    switch (expr.kind) {
      case Expr::Kind::kText:
        connect_text(from, to, expr.text);
        return;
      case Expr::Kind::kChars:
        for (const ByteRangeSequence& sequence : utf8_sequences(expr.ranges)) {
          NodeId at = from;
          for (int i = 0; i < sequence.length; ++i) {
            const NodeId next = i + 1 == sequence.length ? to : add_node();
            add_byte(at, next, sequence.first[static_cast<size_t>(i)], sequence.last[static_cast<size_t>(i)]);
            at = next;
          }
        }
        return;
      case Expr::Kind::kSequence: {
        NodeId at = from;
        for (size_t i = 0; i < expr.parts.size(); ++i) {
          const NodeId next = i + 1 == expr.parts.size() ? to : add_node();
          connect(at, next, expr.parts[i]);
          at = next;
        }
        if (expr.parts.empty()) jump(from, to);
        return;
      }
      case Expr::Kind::kChoice:
        for (const ExprId part : expr.parts) connect(from, to, part);
        return;
      case Expr::Kind::kOneOf:
        connect_texts(from, to, expr.texts);
        return;
      case Expr::Kind::kRepeat:
        connect_repeat(from, to, expr);
        return;
      case Expr::Kind::kCall:
        add_call(from, to, expr.rule, 1, 1);
        return;
    }
  }

  void connect_text(NodeId from, NodeId to, const std::string& text) {
    if (text.empty()) jump(from, to);
    for (size_t i = 0; i < text.size(); ++i) {
      const NodeId next = i + 1 == text.size() ? to : add_node();
      add_byte(from, next, static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i]));
      from = next;
    }
  }

  // Texts that begin alike share the beginning: one state at a time however many there are.
  void connect_texts(NodeId from, NodeId to, std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    std::vector<NodeId> path = {from};  // nodes of the text before
    std::string before;
    for (const std::string& text : texts) {
      const auto split = std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first;
      path.resize(static_cast<size_t>(split - text.begin()) + 1);
      for (auto at = split; at != text.end(); ++at) {
        path.push_back(add_node());
        add_byte(path[path.size() - 2], path.back(), static_cast<uint8_t>(*at), static_cast<uint8_t>(*at));
      }
      jump(path.back(), to);
      before = text;
      if (num_nodes_ > limits_.max_nodes) return;
    }
  }

  void connect_repeat(NodeId from, NodeId to, const Expr& expr) {
    const ExprId body = expr.parts[0];
    const bool endless = expr.max == kUnbounded;
    if (endless && expr.min <= 1) {
      const NodeId loop = add_node();
      const NodeId again = add_node();
      if (expr.min == 0) {
        jump(from, loop);
      } else {
        connect(from, loop, body);
      }
      connect(loop, again, body);
      jump(again, loop);
      jump(loop, to);
      return;
    }
    if (!endless && expr.max <= kMostCopies && is_small(body)) {
      NodeId at = from;
      for (int32_t i = 0; i < expr.max; ++i) {
        if (i >= expr.min) jump(at, to);
        const NodeId next = i + 1 == expr.max ? to : add_node();
        connect(at, next, body);
        at = next;
      }
      return;
    }
    if (!endless && expr.max == 1) {
      jump(from, to);
      connect(from, to, body);
      return;
    }
    auto [entry, is_new] = repeated_.try_emplace(body, -1);
    if (is_new) {
      const int32_t rule = entry->second = add_rule();
      connect(rules_[static_cast<size_t>(rule)].start, rules_[static_cast<size_t>(rule)].end, body);
    }
    add_call(from, to, repeated_[body], expr.min, expr.max);
  }

  bool is_small(ExprId id) const {
    const Expr& expr = grammar_.expr(id);
    return expr.kind == Expr::Kind::kCall || (expr.kind == Expr::Kind::kText && expr.text.size() <= 8) ||
           (expr.kind == Expr::Kind::kChars && expr.ranges.size() <= 8);
  }

  // The nodes from which their rule's end can be reached; over bytes too, or over nothing alone.
  std::vector<bool> reach_back(bool over_bytes) const {
    std::vector<std::vector<uint32_t>> into(num_nodes_);  // edges into a node; calls also under their rule's start
    for (size_t i = 0; i < edges_.size(); ++i) {
      if (edges_[i].kind == EdgeKind::kByte && !over_bytes) continue;
      into[static_cast<size_t>(edges_[i].to)].push_back(static_cast<uint32_t>(i));
      if (edges_[i].kind == EdgeKind::kCall) into[start_of(edges_[i])].push_back(static_cast<uint32_t>(i));
    }
    std::vector<bool> reached(num_nodes_, false);
    std::deque<NodeId> queue;
    const auto reach = [&](NodeId node) {
      if (reached[static_cast<size_t>(node)]) return;
      reached[static_cast<size_t>(node)] = true;
      queue.push_back(node);
    };
    for (const Automaton::RuleNodes& rule : rules_) reach(rule.end);
    while (!queue.empty()) {
      const auto node = static_cast<size_t>(queue.front());
      queue.pop_front();
      for (const uint32_t i : into[node]) {
        const Edge& edge = edges_[i];
        const bool passes = edge.kind != EdgeKind::kCall || edge.call.min == 0 || reached[start_of(edge)];
        if (passes && reached[static_cast<size_t>(edge.to)]) reach(edge.from);
      }
    }
    return reached;
  }

  // Which rules take the empty text; calls of these need not be made at all.
  void find_empty() {
    const std::vector<bool> empty = reach_back(false);
    for (Automaton::RuleNodes& rule : rules_) rule.takes_empty = empty[static_cast<size_t>(rule.start)];
    for (Edge& edge : edges_) {
      if (edge.kind == EdgeKind::kCall && rules_[static_cast<size_t>(edge.call.rule)].takes_empty) edge.call.min = 0;
    }
  }

  Automaton flatten() {
    std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
    Automaton out;
    out.rules_ = rules_;
    out.root_ = grammar_.root();
    out.is_end_.assign(num_nodes_, false);
    for (const Automaton::RuleNodes& rule : rules_) out.is_end_[static_cast<size_t>(rule.end)] = true;
    std::array<bool, 257> begins{};
    begins[0] = true;
    size_t next = 0;
    for (size_t node = 0; node <= num_nodes_; ++node) {
      out.byte_begin_.push_back(static_cast<uint32_t>(out.bytes_.size()));
      out.call_begin_.push_back(static_cast<uint32_t>(out.calls_.size()));
      out.jump_begin_.push_back(static_cast<uint32_t>(out.jumps_.size()));
      for (; next < edges_.size() && static_cast<size_t>(edges_[next].from) == node; ++next) {
        const Edge& edge = edges_[next];
        if (edge.kind == EdgeKind::kByte) {
          out.bytes_.push_back({edge.first, edge.last, edge.to});
          begins[edge.first] = begins[edge.last + size_t{1}] = true;
        } else if (edge.kind == EdgeKind::kCall) {
          out.calls_.push_back(edge.call);
        } else {
          out.jumps_.push_back(edge.to);
        }
      }
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (begins[byte]) out.byte_of_[out.num_classes_++] = static_cast<uint8_t>(byte);
      out.class_of_[byte] = static_cast<uint8_t>(out.num_classes_ - 1);
    }
    return out;
  }

  // A rule that calls itself before any byte was read would be called without end.
  Status check_left_recursion(const Automaton& automaton) const {
    const size_t count = rules_.size();
    std::vector<std::vector<int32_t>> first_calls(count);
    std::vector<int32_t> seen(num_nodes_, -1);
    for (size_t r = 0; r < count; ++r) {
      std::vector<NodeId> stack = {rules_[r].start};
      const auto visit = [&](NodeId node) {
        if (std::exchange(seen[static_cast<size_t>(node)], static_cast<int32_t>(r)) != static_cast<int32_t>(r)) {
          stack.push_back(node);
        }
      };
      while (!stack.empty()) {
        const NodeId node = stack.back();
        stack.pop_back();
        for (const NodeId target : automaton.jumps(node)) visit(target);
        for (const CallEdge& call : automaton.calls(node)) {
          first_calls[r].push_back(call.rule);
          if (call.min == 0) visit(call.target);
        }
      }
    }
    // Depth first with a stack of its own: chains of rules may be long.
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> state(count, kNew);
    std::vector<std::pair<size_t, size_t>> path;
    for (size_t r = 0; r < count; ++r) {
      if (state[r] == kNew) path.emplace_back(r, 0);
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        state[rule] = kOpen;
        if (next == first_calls[rule].size()) {
          state[rule] = kDone;
          path.pop_back();
          continue;
        }
        const auto called = static_cast<size_t>(first_calls[rule][next++]);
        if (state[called] == kOpen) {
          const Rule* culprit = called < grammar_.rules().size() ? &grammar_.rules()[called] : nullptr;
          return invalid_argument((culprit ? named(*culprit) : "a repeat") +
                                  " begins with itself (left recursion); write it as a repeat");
        }
        if (state[called] == kNew) path.emplace_back(called, 0);
      }
    }
    return ok_status();
  }

  const Grammar& grammar_;
  Automaton::Limits limits_;
  std::vector<Automaton::RuleNodes> rules_;
  std::vector<Edge> edges_;
  size_t num_nodes_ = 0;
  std::map<ExprId, int32_t> repeated_;  // rules made for the bodies of counted repeats
};

Result<Automaton> Automaton::compile(const Grammar& grammar, Limits limits) {
  return AutomatonBuilder(grammar, limits).build();
}

size_t Automaton::size_bytes() const {
  return bytes_.size() * sizeof(ByteEdge) + calls_.size() * sizeof(CallEdge) + jumps_.size() * sizeof(NodeId) +
         num_nodes() * (3 * sizeof(uint32_t) + 1) + rules_.size() * sizeof(RuleNodes);
}

}  // namespace firstlight::text::grammar
