// SPDX-License-Identifier: Apache-2.0
#include "gates/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>

#include "adapt/model_options.h"
#include "align/rounding.h"
#include "device/cpu/detect.h"
#include "engine/sampler.h"
#include "engine/scorer.h"
#include "gates/logits_bound.h"
#include "plan/look_ahead.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

// Keeps every row that is visited; a baseline that is no number would be compared with as if it were one.
struct RowKeeper {
  const std::string& origin;
  std::vector<GoldenRow>& rows;
  Status status;

  void operator()(int64_t position, std::span<const float> logits) {
    if (!status.ok()) return;
    const Status sound = engine::check_logits(logits);
    if (!sound.ok()) {
      status = invalid_data(origin + ", position " + std::to_string(position) + ": " + sound.message());
      return;
    }
    rows.push_back(whole_row(position, logits));
  }
};

}  // namespace

bool has_experts(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::Node& node) { return node.op == ops::OpKind::kPerExpert; });
}

int64_t vocabulary_of(const plan::Plan& plan) {
  for (const auto& output : plan.outputs) {
    if (output.name == "logits") return plan.buffer(output.buffer).type.shape.back().factor;
  }
  return 0;
}

std::vector<int32_t> default_golden_prompt(const adapt::TextAssets& assets, int64_t vocab_size) {
  if (assets.tokenizer) {
    auto ids = assets.tokenizer->encode("The sun rises in the east and sets in the");
    if (ids.ok() && !ids->empty()) return std::move(*ids);
  }
  constexpr int64_t kTokens = 8;
  std::vector<int32_t> ids;
  for (int64_t i = 1; i <= kTokens; ++i) ids.push_back(static_cast<int32_t>(vocab_size * i / (kTokens + 1)));
  return ids;
}

Result<Reference> Reference::create(const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options,
                                    int64_t longest, const ir::Graph* instead,
                                    std::optional<tensor::DType> state_dtype) {
  constexpr int64_t kPiece = 64;  // tokens: the arena holds their rows of logits
  adapt::BringUpOptions plain;
  plain.backend = catalog::Backend::kReference;
  plain.headroom = options.headroom;
  plain.state_dtype = state_dtype;
  const bool in_one = plan::sees_later_tokens(loaded.executor->plan());
  const int64_t piece = std::max<int64_t>(1, in_one ? longest : std::min(longest, kPiece));
  plain.buckets = {{1, 1}, {piece, std::min(piece, kPiece)}};
  const target::CpuTarget target = device::detect_cpu();
  const ir::Graph& graph = instead == nullptr ? loaded.model.graph : *instead;
  auto plan = FL_TRY(compiler::compile(graph, adapt::compile_options(plain, target)));
  Reference reference;
  reference.executor_ = FL_TRY(load(*loaded.checkpoint, std::move(plan), *loaded.pool, plain, target));
  return reference;
}

Result<GoldenPrompt> Reference::run(std::string name, const std::vector<int32_t>& prompt,
                                    const std::vector<int64_t>& wanted, int64_t continuation) {
  if (prompt.empty()) return invalid_argument("a golden prompt of at least one token wanted");
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  GoldenPrompt golden{.name = std::move(name), .tokens = prompt, .num_prompt = num_prompt, .rows = {}};
  auto sequence = FL_TRY(engine::ScoredSequence::create(*executor_, num_prompt + continuation));
  const std::string origin = "reference backend";
  RowKeeper keeper{origin, golden.rows, ok_status()};
  FL_TRY(sequence.feed_for_rows(prompt, 0, wanted, std::ref(keeper)));
  FL_TRY(keeper.status);
  if (continuation > 0 && (golden.rows.empty() || golden.rows.back().position != num_prompt - 1)) {
    return invalid_argument("a continuation needs the logits of the prompt's last position");
  }
  for (int64_t i = 0; i < continuation; ++i) {
    golden.tokens.push_back(golden.rows.back().top_ids[0]);
    FL_TRY(sequence.feed({&golden.tokens.back(), 1}, 1, 0, std::ref(keeper)));
    FL_TRY(keeper.status);
  }
  return golden;
}

Result<Golden> make_golden(const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options,
                           const std::vector<int32_t>& prompt, int64_t continuation) {
  std::vector<int64_t> all(prompt.size());
  std::iota(all.begin(), all.end(), 0);
  auto reference = FL_TRY(Reference::create(loaded, options, static_cast<int64_t>(prompt.size()) + continuation));
  Golden golden{.origin = "reference backend",
                .vocabulary = vocabulary_of(loaded.executor->plan()),
                .prompts = {},
                .routed = has_experts(loaded.model.graph),
                .own = true};
  golden.prompts.push_back(FL_TRY(reference.run("a sentence", prompt, all, continuation)));
  return golden;
}

Status add_rounded(Golden& golden, const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options) {
  if (!golden.own) return invalid_argument(golden.origin + " is no golden of the model's own");
  const auto compile = adapt::compile_options(options, device::detect_cpu(), loaded.model.graph);
  const ir::Graph graph = FL_TRY(align::with_rounded_products(loaded.model.graph, compile));
  size_t longest = 1;
  for (const GoldenPrompt& prompt : golden.prompts) longest = std::max(longest, prompt.tokens.size());
  using tensor::DType;
  for (const DType state : {compile.state_dtype, DType::kF32, DType::kF16, DType::kBF16}) {
    auto reference = FL_TRY(Reference::create(loaded, options, static_cast<int64_t>(longest), &graph, state));
    for (GoldenPrompt& prompt : golden.prompts) {
      std::vector<int64_t> wanted;
      for (const GoldenRow& row : prompt.rows) wanted.push_back(row.position);
      prompt.rounded.push_back(FL_TRY(reference.run(prompt.name, prompt.tokens, wanted, 0)).rows);
    }
  }
  return ok_status();
}

namespace {

// Of one prompt of a pack: rows kept whole, and those whose largest are known.
Result<GoldenPrompt> prompt_of(const align::Pack& pack, size_t index, size_t tap) {
  const align::PromptRecord& record = pack.prompts[index];
  const align::TapRecord& logits = record.taps[tap];
  GoldenPrompt prompt{.name = "prompt " + std::to_string(index + 1) + " of the baseline",
                      .tokens = record.tokens,
                      .num_prompt = static_cast<int64_t>(record.tokens.size()),
                      .rows = {}};
  if (!record.greedy.empty()) prompt.tokens.insert(prompt.tokens.end(), record.greedy.begin(), record.greedy.end());
  std::map<int64_t, GoldenRow> rows;
  const auto width = static_cast<size_t>(pack.taps[tap].width);
  const auto projections = static_cast<size_t>(pack.layout.projections);
  const auto sampled = static_cast<int64_t>(record.log_sum_exp.size());
  for (int64_t i = 0; i < sampled; ++i) {
    const auto at = static_cast<size_t>(i);
    GoldenRow row{.position = align::sampled_row(i, sampled, logits.num_rows),
                  .logits = {},
                  .norm = logits.norms[at],
                  .sketch = {logits.sketch.begin() + static_cast<std::ptrdiff_t>(at * projections),
                             logits.sketch.begin() + static_cast<std::ptrdiff_t>((at + 1) * projections)},
                  .top_ids = {},
                  .top_logits = {},
                  .log_sum_exp = record.log_sum_exp[at]};
    for (size_t k = at * align::kTopLogits; k < (at + 1) * align::kTopLogits; ++k) {
      if (record.top_ids[k] < 0) break;
      row.top_ids.push_back(record.top_ids[k]);
      row.top_logits.push_back(record.top_logits[k]);
    }
    rows[row.position] = std::move(row);
  }
  for (size_t i = 0; i < logits.row_ids.size(); ++i) {
    const std::span whole(logits.rows.data() + i * width, width);
    const Status sound = engine::check_logits(whole);
    if (!sound.ok()) {
      return invalid_data(prompt.name + ", position " + std::to_string(logits.row_ids[i]) + ": " + sound.message());
    }
    rows[logits.row_ids[i]] = whole_row(logits.row_ids[i], whole);
  }
  for (auto& [position, row] : rows) prompt.rows.push_back(std::move(row));
  return prompt;
}

}  // namespace

namespace {

// Of a recording of other code, which says what type it computed in.
double rounding_of_type(const std::string& dtype) {
  if (dtype == "bfloat16") return tolerance::product_rounding(catalog::ComputeMode::kBf16);
  constexpr double kBitsMore = 8;  // float16 has three bits more
  if (dtype == "float16") return tolerance::product_rounding(catalog::ComputeMode::kBf16) / kBitsMore;
  return tolerance::product_rounding(catalog::ComputeMode::kF32);
}

}  // namespace

Result<Golden> golden_of(const align::Pack& pack, const std::string& name) {
  const auto logits =
      std::find_if(pack.taps.begin(), pack.taps.end(), [](const align::TapInfo& tap) { return tap.name == "logits"; });
  if (logits == pack.taps.end() || pack.prompts.empty()) {
    return invalid_data(name + ": a golden pack with logits of at least one prompt wanted");
  }
  const auto text = [&](const char* key) {
    const auto found = pack.origin.find(key);
    return found == pack.origin.end() ? std::string() : found->second;
  };
  Golden golden{.origin = text("kind"),
                .rounding = std::atof(text("rounding").c_str()),
                .sketch_seed = pack.layout.seed,
                .vocabulary = logits->width,
                .prompts = {}};
  for (const char* key : {"transformers", "backend", "compute", "dtype"}) {
    if (!text(key).empty()) golden.origin += " " + text(key);
  }
  if (golden.rounding <= 0) golden.rounding = rounding_of_type(text("dtype"));
  const auto tap = static_cast<size_t>(logits - pack.taps.begin());
  for (size_t p = 0; p < pack.prompts.size(); ++p) {
    golden.prompts.push_back(FL_TRY(prompt_of(pack, p, tap).with_context(name)));
  }
  return golden;
}

Result<Golden> read_golden(const std::string& directory) {
  const align::Pack pack = FL_TRY(align::read_pack(directory));
  Golden golden = FL_TRY(golden_of(pack, directory));
  golden.origin = directory + " (" + golden.origin + ")";
  return golden;
}

namespace {

// Feeds the prompt on its path; `visit` sees the rows that the golden knows, the continuation's included.
Status feed(runtime::Executor& executor, const GoldenPrompt& prompt, const Path& path,
            const engine::RowVisitor& visit) {
  std::vector<int64_t> wanted;
  for (const GoldenRow& row : prompt.rows) wanted.push_back(row.position);
  auto sequence = FL_TRY(engine::ScoredSequence::create(executor, static_cast<int64_t>(prompt.tokens.size())));
  const std::span<const int32_t> tokens = prompt.tokens;
  const int64_t stepwise = std::min(path.stepwise, prompt.num_prompt);
  const auto first = static_cast<size_t>(prompt.num_prompt - stepwise);
  FL_TRY(sequence.feed_for_rows(tokens.first(first), path.piece, wanted, visit));
  return sequence.feed_for_rows(tokens.subspan(first), 1, wanted, visit);
}

// The larger; not-a-number is larger than everything.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

Result<std::vector<RowResult>> compare_prompt(runtime::Executor& executor, const Golden& golden,
                                              const GoldenPrompt& prompt, const Path& path) {
  const int64_t vocabulary = vocabulary_of(executor.plan());
  if (vocabulary != golden.vocabulary) {
    return invalid_data("the golden's vocabulary has " + std::to_string(golden.vocabulary) + " entries, the model's " +
                        std::to_string(vocabulary));
  }
  std::vector<RowResult> rows;
  size_t next_row = 0;
  FL_TRY(feed(executor, prompt, path, [&](int64_t position, std::span<const float> logits) {
    const GoldenRow& wanted = prompt.rows[next_row++];
    const auto next = static_cast<size_t>(position) + 1;
    rows.push_back(
        compare_row(logits, wanted, next < prompt.tokens.size() ? prompt.tokens[next] : -1, golden.sketch_seed));
  }));
  if (rows.size() != prompt.rows.size()) {
    return invalid_data("the golden has " + std::to_string(prompt.rows.size()) + " rows of logits for " +
                        std::to_string(prompt.tokens.size()) + " positions, of which " + std::to_string(rows.size()) +
                        " were computed");
  }
  return rows;
}

namespace {

bool is_decided(const RowResult& row, double bound) { return row.margin > tolerance::kSpread * bound; }

// Whether rounding alone explains it; false for NaN.
bool is_explained(const RowResult& row, double bound) {
  return row.rel_l2 <= bound * (1 + tolerance::kSpread * row.uncertain) &&
         (row.found_best == row.best || !is_decided(row, bound));
}

// Of one prompt: rows that nothing explains go where `check` counts them.
Status judge_prompt(runtime::Executor& executor, const Golden& golden, const GoldenPrompt& prompt, GoldenCheck& check) {
  const Path whole{.name = "whole"};
  const auto rows = FL_TRY(compare_prompt(executor, golden, prompt, whole));
  std::vector<RowResult> wrong;
  for (const RowResult& row : rows) {
    if (!is_explained(row, check.bound)) wrong.push_back(row);
    check.worst_rel_l2 = worse(check.worst_rel_l2, row.rel_l2);
    check.worst_max_abs = worse(check.worst_max_abs, row.max_abs);
    check.least_cosine = std::min(check.least_cosine, row.cosine);
    check.best_equal += row.found_best == row.best ? 1 : 0;
    check.best_undecided += is_decided(row, check.bound) ? 0 : 1;
  }
  check.rows += static_cast<int64_t>(rows.size());
  const size_t all_wrong = wrong.size();
  for (size_t i = 0; !wrong.empty() && golden.routed && i < prompt.rounded.size(); ++i) {
    GoldenPrompt other = prompt;
    other.rows = prompt.rounded[i];
    const auto others = FL_TRY(compare_prompt(executor, golden, other, whole));
    std::erase_if(wrong, [&](const RowResult& row) {
      const auto same = std::ranges::find(others, row.position, &RowResult::position);
      return same != others.end() && is_explained(*same, check.bound);
    });
  }
  // Whole rows, so one at least: a prompt may be short.
  const double room = golden.routed ? std::ceil(tolerance::kTurnedRows * static_cast<double>(rows.size())) : 0;
  const bool finite = std::ranges::none_of(wrong, [](const RowResult& row) { return std::isnan(row.rel_l2); });
  if (finite && static_cast<double>(wrong.size()) <= room) wrong.clear();
  check.turned += static_cast<int64_t>(all_wrong - wrong.size());
  if (wrong.empty()) return ok_status();
  check.passed = false;
  if (check.first_wrong < 0) check.first_wrong = wrong.front().position;
  return ok_status();
}

}  // namespace

Result<GoldenCheck> reproduce(runtime::Executor& executor, const Golden& golden) {
  GoldenCheck check{.passed = true, .bound = logits_bound(executor.plan(), golden.rounding)};
  for (const GoldenPrompt& prompt : golden.prompts) FL_TRY(judge_prompt(executor, golden, prompt, check));
  return check;
}

}  // namespace firstlight::gates
