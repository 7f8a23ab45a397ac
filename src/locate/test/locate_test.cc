// SPDX-License-Identifier: Apache-2.0
// The parts of locating that need no model: cuts, changes that keep ids, hypotheses. Whole searches: the fault drill.
#include <gtest/gtest.h>

#include <algorithm>

#include "align/test/tiny_graph.h"
#include "ir/verify.h"
#include "locate/cut.h"
#include "locate/edit.h"
#include "locate/hypotheses.h"

namespace firstlight::locate {
namespace {

using align::tiny_graph;

ir::NodeId first_of(const ir::Graph& graph, ops::OpKind op) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == op) return static_cast<ir::NodeId>(i);
  }
  return -1;
}

bool has(const std::vector<FormulaChange>& changes, const std::string& formula) {
  return std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return c.formula.to_string() == formula; });
}

TEST(Locate, FormulasLoseTermsAndChangeNumbers) {
  const auto formula = ops::Expression::parse("mul(min(x0, 7.0), add(x1, 1.0))").value();
  const auto changes = formula_changes(formula, {2.0});
  EXPECT_TRUE(has(changes, "mul(x0, add(x1, 1.0))")) << "the bound dropped";
  EXPECT_TRUE(has(changes, "mul(min(x0, 7.0), x1)")) << "the term dropped";
  EXPECT_TRUE(has(changes, "mul(min(x0, 2.0), add(x1, 1.0))")) << "the config's number";
  EXPECT_FALSE(has(changes, formula.to_string()));
  EXPECT_EQ(with_numbers_scaled(formula, 7, 2).to_string(), "mul(min(x0, 14.0), add(x1, 1.0))");
}

TEST(Locate, WrappedResultsKeepTheirIds) {
  ir::Graph graph = tiny_graph();
  const ir::NodeId id = first_of(graph, ops::OpKind::kAttend);
  const ir::ValueId value = graph.node(id).results[0];
  ASSERT_TRUE(wrap_result(graph, id, 0, {map_step("mul(x0, 2.0)")}).ok());
  EXPECT_NE(graph.node(id).results[0], value);
  EXPECT_EQ(graph.node(graph.value(value).producer).op, ops::OpKind::kMap);
  ir::eliminate_dead_code(graph);
  EXPECT_TRUE(ir::verify(graph).ok());
}

TEST(Locate, CutsBeginAtKnownValues) {
  const ir::Graph graph = tiny_graph();
  const auto taps = find_taps(graph, true);
  const auto at = [&](ops::OpKind op) {
    const ir::ValueId value = graph.node(first_of(graph, op)).results[0];
    return *std::find_if(taps.begin(), taps.end(), [&](const Tap& tap) { return tap.value == value; });
  };
  const Tap target = at(ops::OpKind::kAttend), known = at(ops::OpKind::kLinear);
  const auto cut = cut_out(graph, target, {known.value});
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_EQ(first_of(*cut, ops::OpKind::kLinear), -1) << "what makes a known value is not run again";
  EXPECT_NE(first_of(*cut, ops::OpKind::kAppend), -1);
}

TEST(Locate, HypothesesOfAttendComeFromTheConfig) {
  const ir::Graph graph = tiny_graph();
  const Hints hints{
      .config = {{"sliding_window", 16}, {"attn_logit_softcapping", 50}}, .checkpoint = nullptr, .routing = {}};
  const auto all = hypotheses(graph, first_of(graph, ops::OpKind::kAttend), hints);
  const auto with = [&](const std::string& what) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Hypothesis& h) { return h.what.find(what) != std::string::npos; });
  };
  EXPECT_TRUE(with("window 15")) << "one less than the config's";
  EXPECT_TRUE(with("capped softly at 50"));
  EXPECT_TRUE(with("causal off"));
}

TEST(Locate, AnRmsNormMayBeMeantAsALayerNorm) {
  auto parsed = ir::parse(
      "graph @norm {} {\n"
      "  input %tokens : i32[T]\n"
      "  weight @embedding : f32[8, 4]\n"
      "  weight @norm : f32[4]\n"
      "  %0 = gather_rows @embedding, %tokens : f32[T, 4]\n"
      "  %1 = rms_norm %0, @norm {eps = 1e-06, offset = 0.0} : f32[T, 4]  # model.layers.0\n"
      "  %2 = linear %1, @embedding {compute = \"auto\"} : f32[T, 8]\n"
      "  output logits = %2\n"
      "}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  ir::Graph& graph = *parsed;
  const ir::NodeId id = first_of(graph, ops::OpKind::kRmsNorm);
  ASSERT_GE(id, 0);
  const auto change = [&](const char* what) {
    const auto all = hypotheses(graph, id, {});
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Hypothesis& h) { return h.what.find(what) != std::string::npos; });
    EXPECT_NE(found, all.end()) << what;
    if (found == all.end()) return;
    EXPECT_TRUE(found->apply(graph, id).ok());
    EXPECT_TRUE(ir::verify(graph).ok());
  };
  change("a layer norm, the mean taken off");
  EXPECT_EQ(graph.node(id).op, ops::OpKind::kLayerNorm);
  change("an rms norm, the mean left in");
  EXPECT_EQ(graph.node(id).op, ops::OpKind::kRmsNorm);
  graph.node(id).attributes.set("offset", 1.0);  // files with w - 1 are of no layer norm
  const auto all = hypotheses(graph, id, {});
  EXPECT_TRUE(std::none_of(all.begin(), all.end(),
                           [](const Hypothesis& h) { return h.what.find("layer norm") != std::string::npos; }));
}

}  // namespace
}  // namespace firstlight::locate
