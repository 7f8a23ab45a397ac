// SPDX-License-Identifier: Apache-2.0
// Golden prompts: token ids whose logits are known, whole or as a golden pack has them (sketch, norm, largest), and how
// a loaded plan's logits compare with them, run in whatever pieces. Readiness hangs on it: a replica that cannot
// reproduce them is not ready, however well it answers otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapt/bring_up.h"
#include "adapt/text_assets.h"
#include "align/pack.h"
#include "gates/golden_row.h"

namespace firstlight::gates {

struct GoldenPrompt {
  std::string name;
  std::vector<int32_t> tokens;  // prompt, then continuation
  int64_t num_prompt = 0;
  std::vector<GoldenRow> rows;  // by position, ascending
  // The same where the reference rounds products as the plan does, once per type of state: what the choice of experts
  // may turn to. Empty: not known.
  std::vector<std::vector<GoldenRow>> rounded;
};

struct Golden {
  std::string origin;   // "reference backend", or where the recording comes from
  double rounding = 0;  // root mean square relative error of one product on the golden's own side
  uint64_t sketch_seed = 0;
  int64_t vocabulary = 0;
  std::vector<GoldenPrompt> prompts;
  bool routed = false;  // the model has experts, whose choice rounding may turn
  bool own = false;     // made by the reference backend from the model's own files
};

bool has_experts(const ir::Graph& graph);

// Width of the output `logits`; 0: there is none.
int64_t vocabulary_of(const plan::Plan& plan);

// A prompt to make a golden from: a plain sentence by the model's tokenizer, or where it has none ids from all over the
// vocabulary.
std::vector<int32_t> default_golden_prompt(const adapt::TextAssets& assets, int64_t vocab_size);

// The reference backend over a loaded model's files, which are read in place, so that it needs little memory beside
// them. Or another graph of the same values (align/rounding.h), states stored as `state_dtype`.
class Reference {
 public:
  // `longest`: tokens of a prompt and its continuation at most.
  static Result<Reference> create(const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options,
                                  int64_t longest, const ir::Graph* instead = nullptr,
                                  std::optional<tensor::DType> state_dtype = {});

  // The logits of `prompt` at the positions in `wanted` (ascending), and of a greedy continuation. Errors: kInvalidData
  // (logits that are no numbers: of the weights, or of the spec), kInvalidArgument (no tokens, ids out of range).
  Result<GoldenPrompt> run(std::string name, const std::vector<int32_t>& prompt, const std::vector<int64_t>& wanted,
                           int64_t continuation);

 private:
  std::unique_ptr<runtime::Executor> executor_;
};

// Rows of each position. As Reference::run with every position wanted.
Result<Golden> make_golden(const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options,
                           const std::vector<int32_t>& prompt, int64_t continuation);

// Adds to each prompt what the reference gives when it rounds as the loaded plan does. `options`: those it was brought
// up with. Errors: those of the reference backend; kInvalidArgument for a golden that is not the model's own, beside
// which rows made from files that may differ would hide that they do.
Status add_rounded(Golden& golden, const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options);

// The logits that a golden pack knows. Errors: kInvalidData (it has no logits, or some that are no numbers).
Result<Golden> golden_of(const align::Pack& pack, const std::string& name);
// Errors: those of align::read_pack as well.
Result<Golden> read_golden(const std::string& directory);

// How the prompt is fed: as many tokens as a run takes; `pieces` tokens at a time; or all but the last `stepwise` of
// the prompt so and the rest one by one. A continuation is fed token by token on every path.
struct Path {
  std::string name;  // "whole", "pieces of 13", "token by token"
  int64_t piece = 0;
  int64_t stepwise = 0;
};

// Feeds one prompt and compares every row that is known. Errors: kInvalidData for another vocabulary.
Result<std::vector<RowResult>> compare_prompt(runtime::Executor& executor, const Golden& golden,
                                              const GoldenPrompt& prompt, const Path& path);

struct GoldenCheck {
  bool passed = false;
  double bound = 0;  // wanted: rel_l2 of each row at most this, best tokens equal wherever the golden's margin decides
  double worst_rel_l2 = 0;
  double worst_max_abs = 0;
  double least_cosine = 1;
  int64_t rows = 0, best_equal = 0, best_undecided = 0;
  int64_t turned = 0;        // rows out of bounds that a turned choice of experts explains
  int64_t first_wrong = -1;  // position of the first row out of bounds that nothing explains
};

// Feeds each prompt whole, its continuation token by token, and compares by what rounding alone explains. What
// readiness asks. Of a model with experts a row may be that of the rounded reference instead, and kTurnedRows of a
// prompt's may be neither's: a choice that lies within rounding falls one way or the other (docs/numerics.md).
Result<GoldenCheck> reproduce(runtime::Executor& executor, const Golden& golden);

}  // namespace firstlight::gates
