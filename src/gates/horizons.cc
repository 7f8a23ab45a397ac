// SPDX-License-Identifier: Apache-2.0
#include "gates/horizons.h"

#include <algorithm>
#include <map>
#include <variant>

#include "ops/attention/segments.h"

namespace firstlight::gates {
namespace {

constexpr int64_t kRecurrentChunk = 32;  // tokens that kernels of recurrences take together (docs/numerics.md)

class Finder {
 public:
  void visit(const ir::Graph& graph) {
    for (const ir::Node& node : graph.nodes) {
      if (node.op == ops::OpKind::kAttend || node.op == ops::OpKind::kAttendSegments) attention(graph, node);
    }
    for (const ops::StateDecl& state : graph.states) add_state(state);
    const ops::Attribute* original = graph.metadata.find("original_max_positions");
    if (const auto* length = original == nullptr ? nullptr : std::get_if<int64_t>(original)) {
      add("rope's original length of " + std::to_string(*length) + " tokens", *length);
    }
  }

  void visit(const plan::Plan& plan) {
    int64_t most = 0;
    for (const plan::Bucket& bucket : plan.buckets) most = std::max(most, bucket.max_tokens);
    add("run of " + std::to_string(most) + " tokens", most);
  }

  std::vector<Horizon> finish() && {
    std::vector<Horizon> out;
    for (const auto& [what, length] : found_) out.push_back({what, length});
    std::stable_sort(out.begin(), out.end(), [](const Horizon& a, const Horizon& b) { return a.length < b.length; });
    return out;
  }

 private:
  void add(const std::string& what, int64_t length) {
    if (length > 0) found_[what] = length;
  }

  void attention(const ir::Graph& graph, const ir::Node& node) {
    const auto all = ops::key_segments(node.op, node.attributes, node.operands.size());
    if (!all.ok()) return;
    for (const ops::KeySegment& segment : all->segments) {
      add("window of " + std::to_string(segment.window) + " tokens", segment.window);
      add("attention in chunks of " + std::to_string(segment.chunk) + " tokens", segment.chunk);
      if (segment.select_operand < 0) continue;
      const auto& shape = graph.value(node.operands[static_cast<size_t>(segment.select_operand)]).type.shape;
      if (shape.empty() || !shape.back().is_static()) continue;
      const int64_t rows = shape.back().factor * segment.select_block;
      add("choice of " + std::to_string(rows) + " rows", rows);
    }
  }

  void add_state(const ops::StateDecl& state) {
    switch (state.kind) {
      case ops::StateKind::kWindowLog:
        return add("window of " + std::to_string(state.window) + " tokens", state.window);
      case ops::StateKind::kRateLog:
        return add("rows of " + std::to_string(state.rate) + " tokens", 2 * state.rate);
      case ops::StateKind::kFixed:
        return add("recurrence in chunks of " + std::to_string(kRecurrentChunk) + " tokens", kRecurrentChunk);
      case ops::StateKind::kTokenHistory:
        return add("history of " + std::to_string(state.window) + " tokens", state.window);
      case ops::StateKind::kAppendLog:
      case ops::StateKind::kShared:
        return;
    }
  }

  std::map<std::string, int64_t> found_;
};

}  // namespace

std::vector<Horizon> find_horizons(const ir::Graph& graph, const plan::Plan& plan) {
  Finder finder;
  finder.visit(graph);
  finder.visit(plan);
  return std::move(finder).finish();
}

}  // namespace firstlight::gates
