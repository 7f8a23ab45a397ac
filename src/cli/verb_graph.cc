// SPDX-License-Identifier: Apache-2.0
// graph: the IR or the plan at a named stage.
#include <algorithm>
#include <cstdio>

#include "adapt/bring_up.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "device/cpu/detect.h"
#include "ir/dot.h"
#include "ir/text.h"

namespace firstlight::cli {
namespace {

constexpr int64_t kPlanTokens = 512;  // the bucket whose arena is printed

size_t count_steps(const plan::Block& block) {
  size_t count = block.steps.size();
  for (const plan::Step& step : block.steps) {
    if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) count += count_steps(*experts->body);
  }
  return count;
}

Json passes_json(const std::vector<compiler::PassRecord>& records) {
  Json list = Json::array();
  for (const auto& record : records) {
    list.push_back(
        {{"name", record.name}, {"ran", record.ran}, {"seconds", record.seconds}, {"nodes", record.nodes_after}});
  }
  return list;
}

Result<int> show_plan(const CommonFlags& common, const GraphFlags& flags, const ir::Graph& graph,
                      const compiler::CompileOptions& options) {
  std::vector<compiler::PassRecord> records;
  const auto plan = FL_TRY(compiler::compile(graph, options, &records));
  if (flags.format == "dot") return invalid_argument("--format dot: for graphs; a plan is text or json");
  const plan::Bucket& bucket = plan.buckets.back();
  if (common.json || flags.format == "json") {
    print_json({{"arena_bytes", bucket.arena_bytes},
                {"lower_bound_bytes", bucket.lower_bound_bytes},
                {"sum_bytes", bucket.sum_bytes},
                {"steps", count_steps(plan.body)},
                {"load_steps", plan.load_steps.size()},
                {"max_tokens", bucket.max_tokens},
                {"passes", passes_json(records)},
                {"text", plan::print(plan)}});
  } else {
    std::printf("%s", plan::print(plan).c_str());
  }
  return 0;
}

}  // namespace

Result<int> verb_graph(const CommonFlags& common, const GraphFlags& flags) {
  const adapt::BringUpOptions options = FL_TRY(bring_up_options(common));
  if (flags.format != "text" && flags.format != "dot" && flags.format != "json") {
    return invalid_argument("--format " + flags.format + ": text, dot or json wanted");
  }
  if (flags.stage == "sharded") return unsupported("--stage sharded: this build runs on one rank");
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(common.model, {.headers_only = true}));
  ir::Graph graph = FL_TRY(intake::load_model(checkpoint, options.intake)).graph;
  compiler::CompileOptions compile = adapt::compile_options(options, device::detect_cpu());
  compile.buckets = {{.max_tokens = kPlanTokens, .max_outputs = 16}};
  FL_TRY(compiler::check_pass_names(compile));
  if (flags.stage == "plan") return show_plan(common, flags, graph, compile);
  std::vector<compiler::PassRecord> records;
  if (flags.stage != "spec") {
    FL_TRY(compiler::run_passes(graph, compile, flags.stage == "fused" ? "" : flags.stage, &records));
  }
  if (common.json || flags.format == "json") {
    print_json({{"stage", flags.stage},
                {"nodes", graph.nodes.size()},
                {"fingerprint", ir::fingerprint(graph)},
                {"passes", passes_json(records)},
                {"text", ir::print(graph)}});
  } else {
    std::printf("%s", (flags.format == "dot" ? ir::print_dot(graph) : ir::print(graph)).c_str());
  }
  return 0;
}

}  // namespace firstlight::cli
