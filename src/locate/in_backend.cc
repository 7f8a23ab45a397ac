// SPDX-License-Identifier: Apache-2.0
// Faults of a backend: it and the reference run the same graph from the same files, and switches tell what differs.
#include <algorithm>
#include <cmath>
#include <map>

#include "locate/locate.h"
#include "locate/shapes.h"

namespace firstlight::locate {
namespace {

// A way to run the backend that leaves something out.
struct Variant {
  Cause cause;
  std::string what, fix;
  Resources resources;
  RunOptions run;
  bool of_chunks = false, of_pass = false;
};

std::vector<Variant> variants(const Resources& backend, const RunOptions& run) {
  std::vector<Variant> out;
  const auto add = [&](Cause cause, std::string what, std::string fix) -> Variant& {
    return out.emplace_back(Variant{cause, std::move(what), std::move(fix), backend, run});
  };
  if (run.chunk > 0) {
    Variant& whole = add(Cause::kState, "in one chunk it agrees",
                         run.chunk == 1 ? "decoding differs from prefill" : "state at the border of two chunks");
    whole.run.chunk = 0;
    whole.of_chunks = true;
  }
  if (run.batched)
    add(Cause::kState, "one prompt after the other it agrees", "sequences of a batch are not kept apart").run.batched =
        false;
  if (backend.compile.generate)
    add(Cause::kKernel, "without generated kernels it agrees", "a generated kernel is wrong; --no-generated until then")
        .resources.compile.generate = false;
  add(Cause::kKernel, "with the plainest kernels it agrees", "a tuned kernel is wrong on this shape")
      .resources.compile.plain_kernels = true;
  if (backend.compile.state_dtype != tensor::DType::kF32)
    add(Cause::kState, "with states of float32 it agrees", "keep states in float32 (--kv-dtype f32)")
        .resources.compile.state_dtype = tensor::DType::kF32;
  for (const compiler::PassInfo& pass : compiler::all_passes()) {
    if (!pass.optional) continue;
    const std::string name(pass.name);
    const std::string made =
        pass.makes ? "the fused kernel " + std::string(ops::op_name(*pass.makes)) : "what it makes";
    add(Cause::kKernel, "without the pass " + name + " it agrees",
        made + " is wrong; --no-pass " + name + " until then")
        .resources.compile.disabled_passes.insert(name);
    out.back().of_pass = true;
  }
  add(Cause::kKernel, "without any optional pass it agrees", "--no-pass all")
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

// How the prompts come in: faults of decoding, of borders between chunks and of batches show in no other way.
struct Way {
  RunOptions run;
  std::string what;  // empty: as asked for
};

std::vector<Way> ways(const Prompts& prompts, const RunOptions& asked) {
  constexpr int64_t kChunk = 5;        // no multiple of any tile
  constexpr size_t kMostTokens = 512;  // that are worth decoding one by one
  size_t tokens = 0, longest = 0;
  for (const auto& prompt : prompts) tokens += prompt.size(), longest = std::max(longest, prompt.size());
  std::vector<Way> out = {{asked, ""}};
  const auto add = [&](int64_t chunk, bool batched, const char* what) {
    RunOptions run = asked;
    run.chunk = chunk;
    run.batched = batched;
    out.push_back({run, what});
  };
  if (asked.chunk != 1 && longest > 1 && tokens <= kMostTokens) add(1, false, "token by token");
  if (asked.chunk != kChunk && longest > kChunk) add(kChunk, false, "in chunks of 5 tokens");
  if (!asked.batched && asked.memory_limit == 0 && prompts.size() > 1)
    add(asked.chunk, true, "with all prompts in one batch");
  return out;
}

class BackendLocator {
 public:
  BackendLocator(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options)
      : graph_(graph), head_(head), options_(options) {
    for (const PromptRecord& prompt : baseline.prompts) prompts_.push_back(prompt.tokens);
    constexpr size_t kWorthHalving = 4;
    if (prompts_.size() == 1 && prompts_[0].size() >= kWorthHalving)  // a batch has two sequences at least
      prompts_.emplace_back(prompts_[0].begin() + static_cast<std::ptrdiff_t>(prompts_[0].size() / 2),
                            prompts_[0].end());
  }

  Status run(Location& location) {
    for (const Way& way : ways(prompts_, options_.run)) {
      for (const bool operators : {true, false}) {  // with layers alone more is fused
        operators_ = operators;
        const auto found = looked_at(way.run);
        if (!found.ok() && !way.what.empty()) {  // attention to later tokens can not come in pieces
          location.notes.push_back("not looked at " + way.what + ": " + found.status().message());
          break;
        }
        if (!found.ok()) return found.status();
        if (found->passed) continue;
        FL_TRY(explain(*found, way, location));
        location.passed = false;
        return ok_status();
      }
    }
    return ok_status();
  }

 private:
  Result<Comparison> looked_at(const RunOptions& run) {
    FL_TRY(record_sides(run));
    return judged(*options_.backend, run);
  }

  RecordOptions record_options(const RunOptions& run) const {
    return {.operators = operators_, .full = {}, .greedy = 0, .run = run};
  }

  Pack head(const char* backend) const {
    Pack out = head_;
    out.origin["backend"] = backend;
    return out;
  }

  Status record_sides(const RunOptions& way) {
    RunOptions run = way;
    run.chunk = 0;  // a chunk's rounding of states is the tested side's
    run.batched = false;
    if (!references_.contains(operators_)) {
      auto made = FL_TRY(record(graph_, prompts_, head("reference"), record_options(run), options_.reference));
      references_[operators_] = std::move(made.pack);
    }
    rounded_.reset();
    if (options_.exact || options_.rounded == nullptr) return ok_status();
    auto record = record_options(way);
    record.run_instead = options_.rounded;
    rounded_ = FL_TRY(record_like(graph_, reference(), head("reference"), record, *options_.rounded_resources)).pack;
    return ok_status();
  }

  const Pack& reference() const { return references_.at(operators_); }

  Result<Comparison> judged(const Resources& resources, const RunOptions& run) {
    Pack made = FL_TRY(record_like(graph_, reference(), head_, record_options(run), resources)).pack;
    const bool rounds = std::atof(made.origin["rounding"].c_str()) > 1e-6;
    if (options_.exact) made.origin["rounding"] = "3e-8";
    return compare(reference(), made, rounded_ && rounds && !options_.exact ? &*rounded_ : nullptr);
  }

  // What is known of a fault while it is looked into.
  struct Inquiry {
    const Way& way;
    const ValueComparison& wrong;
    Finding finding;
    std::optional<ShapeProbe> probe;  // where the value's operators alone show the fault
    bool by_kernel = false;           // another kernel heals it
  };

  bool heals(Inquiry& inquiry, const Variant& variant) {
    if (options_.progress) options_.progress(variant.what + "?");
    ++inquiry.finding.hypotheses;
    const auto healed = judged(variant.resources, variant.run);
    if (!healed.ok()) return false;
    const auto same = std::find_if(healed->values.begin(), healed->values.end(),
                                   [&](const ValueComparison& v) { return v.info.name == inquiry.wrong.info.name; });
    if (same == healed->values.end() || !same->passed) return false;
    inquiry.finding.healed = same->found.rel_l2;
    return true;
  }

  Status explain(const Comparison& found, const Way& way, Location& location) {
    const ValueComparison& wrong = found.values[static_cast<size_t>(found.first_wrong)];
    const auto taps = find_taps(graph_, operators_);
    const auto tap = std::find_if(taps.begin(), taps.end(), [&](const Tap& t) { return t.name == wrong.info.name; });
    if (tap == taps.end()) return internal_error("a value without a tap: " + wrong.info.name);
    Inquiry inquiry{.way = way, .wrong = wrong, .finding = begun(wrong, *tap), .probe = {}};
    std::set<ir::ValueId> known;
    for (const Tap& other : taps) known.insert(other.value);
    auto probe = ShapeProbe::create(graph_, *tap, known, taps, prompts_, options_.reference);
    if (probe.ok() && probe->error(*options_.backend, way.run) > wrong.allowed) inquiry.probe = std::move(*probe);
    switch_by_switch(inquiry);
    if (inquiry.probe) FL_TRY(look_at_shapes(inquiry));
    Finding& finding = inquiry.finding;
    finding.kernel = FL_TRY(kernel_of(finding.value));
    if (!way.what.empty()) finding.shape += (finding.shape.empty() ? "" : "; ") + way.what;
    for (const std::string& part : {finding.shape, finding.kernel}) {
      if (!part.empty()) finding.what += (finding.what.empty() ? "" : "; ") + part;
    }
    location.findings.push_back(std::move(finding));
    return ok_status();
  }

  Finding begun(const ValueComparison& wrong, const Tap& tap) const {
    Finding finding;
    finding.of_backend = true;
    finding.value = wrong.info.name;
    finding.op = wrong.info.op;
    finding.layer = wrong.info.layer;
    finding.layers = {wrong.info.layer};
    finding.error = wrong.found.rel_l2;
    finding.allowed = wrong.allowed;
    finding.of_layer = !operators_;
    const ir::NodeId maker = graph_.value(tap.value).producer;
    finding.scope = graph_.node(maker).scope;
    finding.made_at = graph_.node(maker).made_at;
    finding.concerns = concerned_tensors(graph_, maker);
    finding.cause = Cause::kKernel;
    finding.fix = cause_advice(Cause::kKernel);
    return finding;
  }

  void switch_by_switch(Inquiry& inquiry) {
    const auto all = variants(*options_.backend, inquiry.way.run);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!heals(inquiry, all[i])) continue;
      size_t named = i;
      // Passes behind build on those before: the last one that heals is the nearest to the fault.
      for (size_t k = i + 1; all[i].of_pass && k < all.size() && all[k].of_pass; ++k) {
        if (heals(inquiry, all[k])) named = k;
      }
      const Variant& variant = all[named];
      Finding& finding = inquiry.finding;
      finding.is_guess = false;
      finding.cause = variant.cause;
      finding.what = variant.what;
      finding.fix = variant.fix;
      inquiry.by_kernel = variant.cause == Cause::kKernel;
      if (variant.of_chunks) of_chunks(inquiry);
      return;
    }
  }

  // In one chunk it agrees: a state that is not handed over as it should, or a kernel that can not do with few tokens.
  void of_chunks(Inquiry& inquiry) {
    Finding& finding = inquiry.finding;
    const bool alone = inquiry.probe.has_value();
    const bool reads_state = !alone || inquiry.probe->reads_state();
    Resources plain = *options_.backend;
    plain.compile.plain_kernels = true;
    plain.compile.generate = false;
    if (!reads_state) {
      finding.cause = Cause::kKernel;
      finding.fix = cause_advice(Cause::kKernel);
      return;
    }
    constexpr int64_t kOther = 3;
    const bool one_token = inquiry.way.run.chunk == 1 && alone &&
                           inquiry.probe->error(*options_.backend, {.chunk = kOther}) <= finding.allowed;
    if (!one_token || inquiry.probe->error(plain, inquiry.way.run) > finding.allowed) return;
    finding.cause = Cause::kKernel;
    finding.what = "with the plainest kernels it agrees, and with more than one token";
    finding.fix = "a tuned kernel is wrong for one token; compare it with its plain form";
  }

  // Counts of tokens, rows and columns that are wrong; and whether the error is that of rounding or of decoding.
  Status look_at_shapes(Inquiry& inquiry) {
    Finding& finding = inquiry.finding;
    const ShapeProbe& probe = *inquiry.probe;
    const Resources& backend = *options_.backend;
    const std::string lengths = probe.lengths(backend, finding.allowed, finding.hypotheses);
    const auto profile = probe.profile(backend, inquiry.way.run, finding.allowed);
    finding.shape = lengths;
    if (!profile.where.empty()) finding.shape += (lengths.empty() ? "" : "; ") + profile.where;
    const bool open = inquiry.by_kernel || finding.is_guess;
    if (open && lengths.empty() && profile.everywhere && !profile.one_term) {
      if (probe.error_is_linear(backend).value_or(false)) {
        finding.cause = Cause::kFormat;
        finding.fix = "look at how the kernel decodes the stored type of the weight";
      } else if (profile.like_noise) {
        finding.cause = Cause::kAccumulation;
        finding.fix = "sums are kept in too few bits: accumulate in float32";
      }
    }
    int64_t tried = 0;
    const int64_t fewest = probe.fewest_tokens(backend, finding.allowed, tried);
    finding.reproduction = FL_TRY(probe.reproduction(fewest));
    finding.reproduction->allowed = finding.allowed;
    return ok_status();
  }

  // Symbol and types of the step that makes the value.
  Result<std::string> kernel_of(const std::string& value) {
    compiler::CompileOptions compile = options_.backend->compile;
    int64_t most = 1;
    for (const auto& prompt : prompts_) most = std::max(most, static_cast<int64_t>(prompt.size()));
    compile.buckets = {{.max_tokens = most, .max_outputs = most, .max_sequences = 1}};
    compile.every_row = true;
    const auto plan = FL_TRY(compiler::compile(with_outputs(graph_, find_taps(graph_, operators_)), compile));
    const auto whole = [&](plan::BufferId id) {
      while (id >= 0 && plan.buffer(id).alias_of >= 0) id = plan.buffer(id).alias_of;
      return id;
    };
    const auto output = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                     [&](const plan::PlanOutput& out) { return out.name == value; });
    if (output == plan.outputs.end()) return std::string();
    for (auto step = plan.body.steps.rbegin(); step != plan.body.steps.rend(); ++step) {
      const auto* kernel = std::get_if<plan::KernelStep>(&step->body);
      if (kernel == nullptr) continue;
      const bool makes = std::any_of(kernel->outputs.begin(), kernel->outputs.end(),
                                     [&](plan::BufferId id) { return id >= 0 && whole(id) == whole(output->buffer); });
      if (!makes || kernel->op == ops::OpKind::kReshape) continue;
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
  std::map<bool, Pack> references_;  // with operators, with layers alone
  std::optional<Pack> rounded_;
};

}  // namespace

Status locate_in_backend(const ir::Graph& graph, const Pack& baseline, const Pack& head, const LocateOptions& options,
                         Location& location) {
  return BackendLocator(graph, baseline, head, options).run(location);
}

}  // namespace firstlight::locate
