// SPDX-License-Identifier: Apache-2.0
// Faults of a backend: it and the reference run the same graph from the same files, and switches tell what differs.
#include <algorithm>
#include <cmath>

#include "locate/locate.h"

namespace firstlight::locate {
namespace {

// A way to run the backend that leaves something out.
struct Variant {
  Cause cause;
  std::string what, fix;
  Resources resources;
  RunOptions run;
};

std::vector<Variant> variants(const Resources& backend, const RunOptions& run) {
  std::vector<Variant> out;
  const auto add = [&](Cause cause, std::string what, std::string fix) -> Variant& {
    return out.emplace_back(Variant{cause, std::move(what), std::move(fix), backend, run});
  };
  if (backend.compile.generate)
    add(Cause::kKernel, "without generated kernels it agrees", "a generated kernel is wrong; --no-generated until then")
        .resources.compile.generate = false;
  add(Cause::kKernel, "with the plainest kernels it agrees", "a tuned kernel is wrong on this shape")
      .resources.compile.plain_kernels = true;
  if (run.chunk > 0) {
    add(Cause::kState, "in one chunk it agrees",
        run.chunk == 1 ? "decoding differs from prefill" : "state at the border of two chunks")
        .run.chunk = 0;
  }
  if (backend.compile.state_dtype != tensor::DType::kF32)
    add(Cause::kState, "with states of float32 it agrees", "keep states in float32 (--kv-dtype f32)")
        .resources.compile.state_dtype = tensor::DType::kF32;
  for (const compiler::PassInfo& pass : compiler::all_passes()) {
    if (!pass.optional) continue;
    add(Cause::kPlan, "without the pass " + std::string(pass.name) + " it agrees",
        "--no-pass " + std::string(pass.name))
        .resources.compile.disabled_passes.insert(std::string(pass.name));
  }
  add(Cause::kPlan, "without any optional pass it agrees", "--no-pass all")
      .resources.compile.disabled_passes.insert("all");
  if (backend.compile.compute != catalog::ComputeMode::kF32)
    add(Cause::kAccumulation, "with products in float32 it agrees", "--compute f32").resources.compile.compute =
        catalog::ComputeMode::kF32;
  Variant& both =
      add(Cause::kAccumulation, "with products and states in float32 it agrees", "--compute f32 --kv-dtype f32");
  both.resources.compile.compute = catalog::ComputeMode::kF32;
  both.resources.compile.state_dtype = tensor::DType::kF32;
  return out;
}

class BackendLocator {
 public:
  BackendLocator(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options)
      : graph_(graph), head_(head), options_(options) {
    for (const PromptRecord& prompt : baseline.prompts) prompts_.push_back(prompt.tokens);
  }

  Status run(Location& location) {
    for (const bool operators : {true, false}) {  // with layers alone more is fused
      operators_ = operators;
      FL_TRY(record_sides());
      const auto found = FL_TRY(judged(*options_.backend, options_.run));
      if (found.passed) continue;
      FL_TRY(explain(found, location));
      location.passed = false;
      return ok_status();
    }
    return ok_status();
  }

 private:
  RecordOptions record_options(const RunOptions& run) const {
    return {.operators = operators_, .full = {}, .greedy = 0, .run = run};
  }

  Pack head(const char* backend) const {
    Pack out = head_;
    out.origin["backend"] = backend;
    return out;
  }

  Status record_sides() {
    RunOptions run = options_.run;
    run.chunk = 0;  // a chunk's rounding of states is the tested side's
    reference_ = FL_TRY(record(graph_, prompts_, head("reference"), record_options(run), options_.reference)).pack;
    rounded_.reset();
    if (options_.exact || options_.rounded == nullptr) return ok_status();
    auto record = record_options(options_.run);
    record.run_instead = options_.rounded;
    rounded_ = FL_TRY(record_like(graph_, reference_, head("reference"), record, *options_.rounded_resources)).pack;
    return ok_status();
  }

  Result<Comparison> judged(const Resources& resources, const RunOptions& run) {
    Pack made = FL_TRY(record_like(graph_, reference_, head_, record_options(run), resources)).pack;
    const bool rounds = std::atof(made.origin["rounding"].c_str()) > 1e-6;
    if (options_.exact) made.origin["rounding"] = "3e-8";
    return compare(reference_, made, rounded_ && rounds && !options_.exact ? &*rounded_ : nullptr);
  }

  Status explain(const Comparison& found, Location& location) {
    const ValueComparison& wrong = found.values[static_cast<size_t>(found.first_wrong)];
    const auto taps = find_taps(graph_, operators_);
    const auto tap = std::find_if(taps.begin(), taps.end(), [&](const Tap& t) { return t.name == wrong.info.name; });
    if (tap == taps.end()) return internal_error("a value without a tap: " + wrong.info.name);
    Finding finding;
    finding.of_backend = true;
    finding.value = wrong.info.name;
    finding.op = wrong.info.op;
    finding.layer = wrong.info.layer;
    finding.layers = {wrong.info.layer};
    finding.error = wrong.found.rel_l2;
    finding.allowed = wrong.allowed;
    finding.of_layer = !operators_;
    const ir::NodeId maker = graph_.value(tap->value).producer;
    finding.scope = graph_.node(maker).scope;
    finding.cause = Cause::kKernel;
    finding.fix = cause_advice(Cause::kKernel);
    for (const Variant& variant : variants(*options_.backend, options_.run)) {
      if (options_.progress) options_.progress(variant.what + "?");
      const auto healed = judged(variant.resources, variant.run);
      ++finding.hypotheses;
      if (!healed.ok()) continue;
      const auto same = std::find_if(healed->values.begin(), healed->values.end(),
                                     [&](const ValueComparison& v) { return v.info.name == wrong.info.name; });
      if (same == healed->values.end() || !same->passed) continue;
      finding.is_guess = false;
      finding.cause = variant.cause;
      finding.what = variant.what;
      finding.fix = variant.fix;
      finding.healed = same->found.rel_l2;
      break;
    }
    const std::string kernel = FL_TRY(kernel_of(finding.scope + " " + finding.op));
    if (!kernel.empty()) finding.what += (finding.what.empty() ? "" : "; ") + kernel;
    location.findings.push_back(std::move(finding));
    return ok_status();
  }

  // Symbol and types of the first step with that label.
  Result<std::string> kernel_of(const std::string& label) {
    compiler::CompileOptions compile = options_.backend->compile;
    int64_t most = 1;
    for (const auto& prompt : prompts_) most = std::max(most, static_cast<int64_t>(prompt.size()));
    compile.buckets = {{.max_tokens = most, .max_outputs = most, .max_sequences = 1}};
    compile.every_row = true;
    const auto plan = FL_TRY(compiler::compile(with_outputs(graph_, find_taps(graph_, operators_)), compile));
    for (const plan::Step& step : plan.body.steps) {
      const auto* kernel = std::get_if<plan::KernelStep>(&step.body);
      if (kernel == nullptr || step.label != label) continue;
      std::string text =
          "kernel " + kernel->symbol + (kernel->generated.empty() ? "" : " / " + kernel->generated) + " (";
      for (const plan::BufferId id : kernel->inputs) {
        if (id >= 0) text += (text.back() == '(' ? "" : ", ") + plan.buffer(id).type.to_string();
      }
      return text + ")";
    }
    return std::string();
  }

  const ir::Graph& graph_;
  const Pack& head_;
  const LocateOptions& options_;
  bool operators_ = true;
  Prompts prompts_;
  Pack reference_;
  std::optional<Pack> rounded_;
};

}  // namespace

Status locate_in_backend(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options,
                         Location& location) {
  return BackendLocator(graph, baseline, head, options).run(location);
}

}  // namespace firstlight::locate
