// SPDX-License-Identifier: Apache-2.0
// What a model's logits do when some of its weights are stored in fewer bits: the weights are rounded and written as
// `convert` writes them, laid over the checkpoint, and the model runs on given tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapt/bring_up.h"
#include "adapt/quant_policy.h"
#include "adapt/quantise_plan.h"

namespace firstlight::gates {

// How one model's predictions differ from the untouched one's, over the rows of the calibration tokens.
struct Effect {
  double kl = 0;          // mean over rows of KL(untouched || this), in nats
  double top1 = 1;        // share of rows with the same likeliest token
  double perplexity = 0;  // of the tokens, exp of the mean of -log p
};

struct Variant {
  Effect effect;
  int64_t bytes = 0;  // of the whole checkpoint's tensors
};

struct VariantOptions {
  // Backend, compute mode, threads, and buckets that give a row per token.
  adapt::BringUpOptions bring_up;
  std::vector<int32_t> tokens;  // one sequence, BOS included; at least two
  // A folder for the rounded weights; made, and removed in the end, where it is not there. Empty: a new one in the
  // system's for temporary files.
  std::string scratch;
};

class VariantRunner {
 public:
  // Runs the untouched model. `source` and `planner` must outlive it. Errors: those of bringing up and of scoring;
  // kInvalidData for logits that are no numbers.
  static Result<std::unique_ptr<VariantRunner>> create(const adapt::QuantPlanner& planner, VariantOptions options);
  ~VariantRunner();

  const Variant& untouched() const { return untouched_; }
  int64_t num_runs() const { return num_runs_; }
  int64_t num_rows() const { return static_cast<int64_t>(best_.size()); }

  // With the policy's weights rounded, and computed in `mode` where one is given.
  Result<Variant> run(const adapt::QuantPolicy& policy, std::optional<catalog::ComputeMode> mode = std::nullopt);
  // The untouched weights in another compute mode.
  Result<Effect> run_computed(catalog::ComputeMode mode);

 private:
  VariantRunner(const adapt::QuantPlanner& planner, VariantOptions options);
  Result<Effect> score(const formats::Checkpoint& checkpoint, const intake::Model& model,
                       const adapt::BringUpOptions& options);
  Status visit(int64_t row, std::span<const float> logits);

  const adapt::QuantPlanner& planner_;
  VariantOptions options_;
  bool owns_scratch_ = false;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<device::Device> device_;
  Variant untouched_;
  int64_t num_runs_ = 0;
  std::vector<float> log_p_;   // of the untouched model, a row per token
  std::vector<int32_t> best_;  // its likeliest tokens
  bool first_ = true;          // the run that fills them
  double kl_ = 0, nll_ = 0;    // sums of the run that goes on
  int64_t equal_ = 0, scored_ = 0;
};

}  // namespace firstlight::gates
