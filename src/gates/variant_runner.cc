// SPDX-License-Identifier: Apache-2.0
#include "gates/variant_runner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "adapt/model_options.h"
#include "adapt/quantise.h"
#include "device/cpu/detect.h"
#include "engine/sampler.h"
#include "engine/scorer.h"
#include "formats/overlay.h"

namespace firstlight::gates {
namespace {

namespace fs = std::filesystem;

// A folder of its own among the system's temporary ones.
Result<std::string> make_scratch() {
  std::error_code error;
  const fs::path base = fs::temp_directory_path(error);
  if (error) return unavailable("no folder for temporary files: " + error.message());
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const fs::path path = base / ("firstlight-variants-" + std::to_string(random()));
    if (fs::create_directory(path, error)) return path.string();
    if (error) return unavailable(path.string() + ": " + error.message());
  }
  return unavailable(base.string() + ": no name is free");
}

// Removes the file in the end; what is mapped stays readable.
struct RemovedFile {
  std::string path;
  ~RemovedFile() {
    std::error_code ignored;
    if (!path.empty()) fs::remove(path, ignored);
  }
};

}  // namespace

VariantRunner::VariantRunner(const adapt::QuantPlanner& planner, VariantOptions options)
    : planner_(planner), options_(std::move(options)) {}

VariantRunner::~VariantRunner() {
  std::error_code ignored;
  if (owns_scratch_) fs::remove_all(options_.scratch, ignored);
}

Result<std::unique_ptr<VariantRunner>> VariantRunner::create(const adapt::QuantPlanner& planner,
                                                             VariantOptions options) {
  if (options.tokens.size() < 2) return invalid_argument("calibration wants two tokens or more");
  std::unique_ptr<VariantRunner> runner(new VariantRunner(planner, std::move(options)));
  VariantOptions& own = runner->options_;
  if (own.scratch.empty()) {
    own.scratch = FL_TRY(make_scratch());
    runner->owns_scratch_ = true;
  } else {
    std::error_code error;
    runner->owns_scratch_ = fs::create_directory(own.scratch, error);
    if (error) return invalid_argument(own.scratch + ": " + error.message());
  }
  if (own.bring_up.device == nullptr) {
    runner->device_ = FL_TRY(adapt::open_backend(own.bring_up));
    own.bring_up.device = runner->device_.get();
  }
  runner->pool_ = FL_TRY(ThreadPool::create({.num_threads = own.bring_up.num_threads}));
  const adapt::QuantSource& source = planner.source();
  runner->untouched_.bytes = static_cast<int64_t>(source.checkpoint.total_bytes());
  runner->untouched_.effect = FL_TRY(runner->score(source.checkpoint, source.model, own.bring_up));
  return runner;
}

Result<Variant> VariantRunner::run(const adapt::QuantPolicy& policy, std::optional<catalog::ComputeMode> mode) {
  const auto jobs = FL_TRY(planner_.plan(policy));
  const intake::Model model = FL_TRY(planner_.trace(jobs));
  std::set<std::string, std::less<>> hidden;
  for (const adapt::QuantJob& job : jobs) {
    if (job.choice) hidden.insert(job.record->name);
  }
  const RemovedFile file{FL_TRY(adapt::write_variant(planner_, jobs, options_.scratch))};
  const auto checkpoint =
      FL_TRY(formats::overlay(FL_TRY(formats::Checkpoint::open(planner_.source().path)), hidden, file.path));
  adapt::BringUpOptions options = options_.bring_up;
  if (mode) options.compute = mode;
  Variant variant{.effect = FL_TRY(score(checkpoint, model, options))};
  variant.bytes = static_cast<int64_t>(checkpoint.total_bytes());
  return variant;
}

Result<Effect> VariantRunner::run_computed(catalog::ComputeMode mode) {
  adapt::BringUpOptions options = options_.bring_up;
  options.compute = mode;
  return score(planner_.source().checkpoint, planner_.source().model, options);
}

Result<Effect> VariantRunner::score(const formats::Checkpoint& checkpoint, const intake::Model& model,
                                    const adapt::BringUpOptions& options) {
  const target::CpuTarget target = device::detect_cpu();
  auto plan = FL_TRY(compiler::compile(model.graph, adapt::compile_options(options, target, model.graph)));
  const auto executor = FL_TRY(adapt::load(checkpoint, std::move(plan), *pool_, options, target));
  kl_ = nll_ = 0;
  equal_ = scored_ = 0;
  Status sound = ok_status();
  FL_TRY(engine::score(*executor, options_.tokens, {}, [&](int64_t row, std::span<const float> logits) {
    if (sound.ok()) sound = visit(row, logits);
  }));
  FL_TRY(sound);
  ++num_runs_;
  first_ = false;
  const auto rows = static_cast<double>(best_.size());
  return Effect{.kl = kl_ / rows,
                .top1 = static_cast<double>(equal_) / rows,
                .perplexity = std::exp(nll_ / static_cast<double>(scored_))};
}

Status VariantRunner::visit(int64_t row, std::span<const float> logits) {
  FL_TRY(engine::check_logits(logits));
  const double sum = engine::log_sum_exp(logits);
  const auto best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const auto next = static_cast<size_t>(row) + 1;
  if (next < options_.tokens.size()) {
    nll_ += sum - static_cast<double>(logits[static_cast<size_t>(options_.tokens[next])]);
    ++scored_;
  }
  if (first_) {
    best_.push_back(best);
    for (const float value : logits) log_p_.push_back(static_cast<float>(static_cast<double>(value) - sum));
    ++equal_;
    return ok_status();
  }
  if (static_cast<size_t>(row) >= best_.size()) return internal_error("a row more than the untouched model gave");
  equal_ += best == best_[static_cast<size_t>(row)] ? 1 : 0;
  const float* wanted = log_p_.data() + static_cast<size_t>(row) * logits.size();
  double kl = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto log_p = static_cast<double>(wanted[i]);
    kl += std::exp(log_p) * (log_p - (static_cast<double>(logits[i]) - sum));
  }
  kl_ += std::max(0.0, kl);
  return ok_status();
}

}  // namespace firstlight::gates
