// SPDX-License-Identifier: Apache-2.0
// With an eviction asked for, attention over everything becomes attention over the first tokens and the last ones, and
// logs keep only those (StreamingLLM, arXiv:2309.17453): attend(log) turns into attend_segments(log up to the sinks,
// the window behind them). What a token sees depends on its position alone, so that chunks, batches and reused prefixes
// give what one run of all tokens would.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "ops/attention/segments.h"

namespace firstlight::compiler {
namespace {

using ops::OpKind;

Status refuse(const ops::StateDecl& state, const std::string& why) {
  return unsupported("eviction: state '" + state.name + "' " + why);
}

// How far back a log is read.
struct Reach {
  int64_t window = 0;
  bool whole = false;
};

bool is_append(OpKind op) { return op == OpKind::kAppend || op == OpKind::kRopeAppend; }

Status add_reads(const ir::Graph& graph, const ir::Node& node, std::vector<Reach>& reaches) {
  const auto states = graph.states_of(node.operands);
  const bool attends = node.op == OpKind::kAttend || node.op == OpKind::kAttendSegments;
  if (states.empty() || is_append(node.op)) return ok_status();
  const auto all = attends ? ops::key_segments(node.op, node.attributes, node.operands.size()) : ops::KeySegments{};
  if (!all.ok()) return all.status();
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i]->kind != ops::StateKind::kAppendLog) continue;
    Reach& reach = reaches[static_cast<size_t>(states[i] - graph.states.data())];
    if (!attends) return refuse(*states[i], "is read by " + std::string(ops::op_name(node.op)));
    const ops::KeySegment& segment = all->segments[i];
    if (!segment.causal) return refuse(*states[i], "is read ahead");
    const int64_t limit = segment.window > 0 ? segment.window : segment.chunk;
    reach.window = std::max(reach.window, limit);
    if (limit > 0) continue;
    if (node.op == OpKind::kAttendSegments) return refuse(*states[i], "is read by attend_segments over everything");
    reach.whole = true;
  }
  return ok_status();
}

Status split(const Eviction& evict, ir::Node& node) {
  const ops::Attributes& old = node.attributes;
  ops::Attributes made;
  made.set("scale", old.get_float("scale"));
  made.set("keys", old.get_string("key") + ", " + old.get_string("key"));
  made.set("values", old.get_string("value") + ", " + old.get_string("value"));
  if (old.get_int("value_width") > 0) made.set("value_width", old.get_int("value_width"));
  made.set("windows", std::vector<int64_t>{0, evict.window});
  made.set("from", std::vector<int64_t>{0, evict.sinks});
  made.set("until", std::vector<int64_t>{evict.sinks, 0});
  const ops::Expression& mask = old.get_expression("mask");
  if (!mask.empty()) made.set("masks", std::vector<ops::Expression>{mask, mask});
  if (!old.get_expression("score").empty()) made.set("score", old.get_expression("score"));
  if (node.operands.size() > 2) made.set("sinks", true);
  FL_TRY(ops::check_attributes(ops::op_def(OpKind::kAttendSegments), made));  // fills in the rest
  node.operands.insert(node.operands.begin() + 2, node.operands[1]);
  node.op = OpKind::kAttendSegments;
  node.attributes = std::move(made);
  return ok_status();
}

}  // namespace

Status evict_rows(ir::Graph& graph, const CompileOptions& options) {
  if (!options.evict) return ok_status();
  std::vector<Reach> reaches(graph.states.size());
  for (const ir::Node& node : graph.nodes) FL_TRY(add_reads(graph, node, reaches));
  for (const ops::StateDecl& state : graph.states) {
    if (state.kind == ops::StateKind::kRateLog) return refuse(state, "has a row for several tokens and keeps them all");
  }
  for (ir::Node& node : graph.nodes) {
    if (node.op != OpKind::kAttend || graph.state_of(node.operands[1])->kind != ops::StateKind::kAppendLog) continue;
    if (node.attributes.get_int("window") > 0 || node.attributes.get_int("chunk") > 0) continue;
    if (options.evict->sinks > 0) {
      FL_TRY(split(*options.evict, node));
    } else {
      node.attributes.set("window", options.evict->window);
    }
  }
  for (size_t s = 0; s < graph.states.size(); ++s) {
    ops::StateDecl& state = graph.states[s];
    const Reach& reach = reaches[s];
    if (state.kind != ops::StateKind::kAppendLog) continue;
    state.kind = ops::StateKind::kWindowLog;
    state.window = std::max({reach.window, reach.whole ? options.evict->window : 0, int64_t{1}});
    state.keep = reach.whole ? options.evict->sinks : 0;
  }
  return ok_status();
}

}  // namespace firstlight::compiler
