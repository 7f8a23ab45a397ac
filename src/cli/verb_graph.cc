// SPDX-License-Identifier: Apache-2.0
// graph: the IR or the plan at a named stage.
#include <algorithm>
#include <cstdio>

#include "adapt/bring_up.h"
#include "adapt/model_options.h"
#include "base/file_map.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "compiler/traffic.h"
#include "device/cpu/detect.h"
#include "formats/hf_directory.h"
#include "ir/dot.h"
#include "ir/text.h"

namespace firstlight::cli {
namespace {

constexpr int64_t kPlanTokens = 512;  // the bucket whose arena is printed

// The graph of a checkpoint, or of a directory that has a config alone: then every tensor is taken to exist as the spec
// asks for it.
Result<ir::Graph> load_graph(const std::string& path, const intake::IntakeOptions& options) {
  const auto directory = formats::HfDirectory::scan(path);
  const bool config_only = directory.ok() && directory->config && directory->safetensors.empty() &&
                           directory->safetensors_indexes.empty() && directory->gguf.empty();
  if (!config_only) {
    const auto checkpoint = FL_TRY(formats::Checkpoint::open(path, {.headers_only = true}));
    return FL_TRY(intake::load_model(checkpoint, options)).graph;
  }
  constexpr size_t kMostBytes = size_t{16} << 20;
  intake::ModelDescription description;
  description.config = FL_TRY(read_text_file(*directory->config, kMostBytes));
  description.config_name = *directory->config;
  return FL_TRY(intake::trace_model(description, nullptr, options)).graph;
}

// Launches and bytes of one token that is decoded, in all and layer by layer.
Json decode_json(const plan::Plan& plan) {
  compiler::Traffic total;
  Json layers = Json::array();
  const auto entry = [](const compiler::Traffic& traffic) {
    return Json{{"launches", traffic.launches},
                {"activation_bytes", traffic.activation_bytes},
                {"weight_bytes", traffic.weight_bytes}};
  };
  for (const auto& [layer, traffic] : compiler::traffic_by_layer(plan, {.tokens = 1, .outputs = 1, .sequences = 1})) {
    total += traffic;
    if (layer < 0) continue;
    layers.push_back(entry(traffic));
    layers.back()["layer"] = layer;
  }
  Json all = entry(total);
  all["layers"] = std::move(layers);
  return all;
}

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
                {"decode", decode_json(plan)},
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
  ir::Graph graph = FL_TRY(load_graph(common.model, options.intake));
  compiler::CompileOptions compile = adapt::compile_options(options, device::detect_cpu(), graph);
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
