// SPDX-License-Identifier: Apache-2.0
#include "gates/gates.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "adapt/model_options.h"
#include "base/json.h"
#include "device/cpu/detect.h"
#include "gates/layer_gate.h"
#include "gates/model_gate.h"
#include "gates/operator_gate.h"
#include "gates/performance_gate.h"

namespace firstlight::gates {
namespace {

std::string format(const char* pattern, auto... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

// The row, in its order. A level's gate is one function (candidate.h).
struct LevelGate {
  Level level;
  Result<Verdict> (*run)(Candidate& candidate);
};
constexpr LevelGate kRow[] = {{Level::kOperator, operator_gate},
                              {Level::kLayer, layer_gate},
                              {Level::kModel, model_gate},
                              {Level::kPerformance, performance_gate}};

class GateRunner {
 public:
  GateRunner(const std::string& path, const GateOptions& options)
      : path_(path), options_(options), bring_up_(options.bring_up), target_(device::detect_cpu()) {}

  Result<AdaptResult> run() {
    result_.loaded = std::make_unique<adapt::LoadedModel>();
    result_.passed =
        gate("intake", [&](Gate& g) { return intake(g); }) && gate("coverage", [&](Gate& g) { return coverage(g); }) &&
        gate("plan", [&](Gate& g) { return plan(g); }) && gate("load", [&](Gate& g) { return load(g); }) && levels();
    if (internal_) return std::move(*internal_);
    return std::move(result_);
  }

 private:
  // Runs one gate. What a file or a spec did wrong closes it; a fault of our own ends the whole run.
  bool gate(const char* level, const std::function<Status(Gate&)>& body) {
    Gate gate{.level = level, .evidence = "{}"};
    const auto start = std::chrono::steady_clock::now();
    const Status status = body(gate);
    gate.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!status.ok()) {
      if (status.code() == StatusCode::kInternal) internal_ = status;
      gate.passed = false;
      gate.summary = status.message();
      gate.evidence =
          dump_json({{"error", {{"code", status_code_name(status.code())}, {"message", status.message()}}}});
    }
    result_.gates.push_back(gate);
    if (options_.gate_done) options_.gate_done(gate);
    return gate.passed;
  }

  bool levels() {
    Candidate candidate{.path = path_,
                        .options = options_,
                        .bring_up = bring_up_,
                        .target = target_,
                        .loaded = loaded(),
                        .text = result_.text,
                        .golden = result_.golden};
    return std::all_of(std::begin(kRow), std::end(kRow), [&](const LevelGate& entry) {
      if (!options_.levels.contains(entry.level)) return true;
      return gate(level_name(entry.level).data(), [&](Gate& gate) -> Status {
        const Verdict verdict = FL_TRY(entry.run(candidate));
        gate.passed = verdict.passed;
        gate.summary = verdict.summary;
        gate.evidence = verdict.evidence;
        return ok_status();
      });
    });
  }

  adapt::LoadedModel& loaded() { return *result_.loaded; }

  Status intake(Gate& gate) {
    loaded().checkpoint = std::make_unique<formats::Checkpoint>(FL_TRY(formats::Checkpoint::open(path_)));
    loaded().model = FL_TRY(intake::load_model(*loaded().checkpoint, options_.bring_up.intake));
    const auto& model = loaded().model;
    gate.passed = true;
    gate.summary =
        model.architecture + " by " + model.spec + ", " + std::to_string(model.graph.nodes.size()) + " nodes";
    gate.evidence = dump_json({{"architecture", model.architecture},
                               {"spec", model.spec},
                               {"quantisation", model.quantisation},
                               {"files", loaded().checkpoint->files()},
                               {"tensor_bytes", loaded().checkpoint->total_bytes()},
                               {"nodes", model.graph.nodes.size()},
                               {"warnings", model.warnings}});
    return ok_status();
  }

  Status coverage(Gate& gate) {
    const auto& found = loaded().model.coverage;
    gate.passed = found.complete();
    gate.summary = format(
        "config %zu bound, %zu waived, %zu unknown; tensors %zu bound, %zu waived, %zu unbound, %zu missing",
        found.config.bound.size(), found.config.waived.size(), found.config.unknown.size(), found.tensors.bound.size(),
        found.tensors.waived.size(), found.tensors.unbound.size(), found.tensors.missing.size());
    gate.evidence = dump_json({{"config",
                                {{"bound", found.config.bound},
                                 {"waived", found.config.waived},
                                 {"unknown", found.config.unknown},
                                 {"without_effect", found.config.without_effect}}},
                               {"tensors",
                                {{"bound", found.tensors.bound.size()},
                                 {"waived", found.tensors.waived},
                                 {"unbound", found.tensors.unbound},
                                 {"missing", found.tensors.missing}}}});
    return ok_status();
  }

  Status plan(Gate& gate) {
    loaded().device = FL_TRY(adapt::open_backend(bring_up_));
    bring_up_.device = loaded().device.get();
    const ir::Graph& graph = loaded().model.graph;
    plan_ = FL_TRY(compiler::compile(graph, adapt::compile_options(bring_up_, target_, graph), &loaded().passes));
    const plan::Bucket& bucket = plan_.buckets.back();
    Json passes = Json::array();
    for (const auto& record : loaded().passes) {
      passes.push_back(
          {{"name", record.name}, {"ran", record.ran}, {"seconds", record.seconds}, {"nodes", record.nodes_after}});
    }
    gate.passed = true;
    gate.summary =
        format("%zu steps on %s, arena %.1f MB for %lld tokens", plan_.body.steps.size(), plan_.backend.c_str(),
               static_cast<double>(bucket.arena_bytes) / 1e6, static_cast<long long>(bucket.max_tokens));
    gate.evidence = dump_json({{"steps", plan_.body.steps.size()},
                               {"load_steps", plan_.load_steps.size()},
                               {"arena_bytes", bucket.arena_bytes},
                               {"lower_bound_bytes", bucket.lower_bound_bytes},
                               {"sum_bytes", bucket.sum_bytes},
                               {"passes", std::move(passes)}});
    return ok_status();
  }

  Status load(Gate& gate) {
    loaded().pool = FL_TRY(ThreadPool::create({.num_threads = bring_up_.num_threads}));
    loaded().executor = FL_TRY(adapt::load(*loaded().checkpoint, std::move(plan_), *loaded().pool, bring_up_, target_));
    result_.text = adapt::load_text_assets(path_, loaded().checkpoint.get(), {.intake = bring_up_.intake});
    const auto& memory = loaded().executor->memory();
    gate.passed = true;
    gate.summary = format("%.1f MB of weights made, %.1f MB read in place, %d threads",
                          static_cast<double>(memory.resident_bytes) / 1e6,
                          static_cast<double>(memory.mapped_bytes) / 1e6, loaded().pool->num_threads());
    gate.evidence = dump_json({{"resident_bytes", memory.resident_bytes},
                               {"mapped_bytes", memory.mapped_bytes},
                               {"arena_bytes", memory.arena_bytes},
                               {"workspace_bytes", memory.workspace_bytes},
                               {"threads", loaded().pool->num_threads()}});
    return ok_status();
  }

  const std::string& path_;
  const GateOptions& options_;
  adapt::BringUpOptions bring_up_;
  target::CpuTarget target_;
  AdaptResult result_;
  plan::Plan plan_;
  std::optional<Status> internal_;
};

constexpr std::string_view kNames[] = {"operator", "layer", "model", "performance"};

}  // namespace

std::string_view level_name(Level level) { return kNames[static_cast<size_t>(level)]; }

std::optional<Level> level_from_name(std::string_view name) {
  if (name == "op") return Level::kOperator;
  if (name == "perf") return Level::kPerformance;
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Level>(found - std::begin(kNames));
}

std::set<Level> all_levels() {
  std::set<Level> levels;
  for (const LevelGate& entry : kRow) levels.insert(entry.level);
  return levels;
}

Result<AdaptResult> run_gates(const std::string& path, const GateOptions& options) {
  return GateRunner(path, options).run();
}

}  // namespace firstlight::gates
