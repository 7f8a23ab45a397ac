// SPDX-License-Identifier: Apache-2.0
// Numbers and switches of attributes: the usual ones and the config's.
#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

void numbers_of_attributes(Draft& draft) {
  for (const NumberRow& row : number_rows()) {
    if (row.op != draft.node.op || !draft.node.attributes.has(row.attribute)) continue;
    const double now = draft.node.attributes.get_float(row.attribute);
    std::vector<double> values = draft.numbers_with(row.config);
    values.insert(values.end(), row.values.begin(), row.values.end());
    std::set<double> seen = {now};
    int rank = 10;
    draft.words = row.config;
    for (const double value : values) {
      if (!seen.insert(value).second) continue;
      draft.set(row.cause, row.attribute, value,
                std::string(row.attribute) + " " + number(value) + " instead of " + number(now), rank++);
    }
  }
}

// The mean taken off first, or left in.
void other_norm(Draft& draft) {
  const bool rms = draft.node.op == ops::OpKind::kRmsNorm;
  const auto& attributes = draft.node.attributes;
  const bool plain =
      rms ? !attributes.has("offset") || attributes.get_float("offset") == 0 : draft.node.operands.size() <= 2;
  if (!plain) return;
  ops::Attributes others;
  others.set("eps", attributes.get_float("eps"));
  if (!rms) others.set("offset", 0.0);
  const std::string what =
      rms ? "a layer norm, the mean taken off, for the rms norm" : "an rms norm, the mean left in, for the layer norm";
  draft.add(
      Cause::kNorm, what, "in the spec: " + what,
      [rms, others](ir::Graph& graph, ir::NodeId id) {
        graph.node(id).op = rms ? ops::OpKind::kLayerNorm : ops::OpKind::kRmsNorm;
        graph.node(id).attributes = others;
        return ok_status();
      },
      22);
}

// Every switch the other way.
void switches(Draft& draft) {
  for (const auto& [name, value] : draft.node.attributes.all()) {
    if (!std::holds_alternative<bool>(value) || name == "keep") continue;
    const bool now = std::get<bool>(value);
    draft.words = name;
    const Cause cause = name == "causal"    ? Cause::kMask
                        : name == "inverse" ? Cause::kPosition
                                            : usual_cause(draft.graph, draft.id, draft.hints.routing);
    draft.set(cause, name, !now, name + (now ? " off" : " on"), 30);
  }
  if (draft.node.op == OpKind::kReduce) {
    for (const char* op : {"sum", "mean", "max"}) {
      if (draft.node.attributes.get_string("op") != op)
        draft.set(draft.here(Cause::kConfig), "op", std::string(op), "reduced by " + std::string(op), 40);
    }
  }
}

}  // namespace firstlight::locate
