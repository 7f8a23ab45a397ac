// SPDX-License-Identifier: Apache-2.0
// validate --sensitivity: how far each weight in fewer bits moves the logits, and a policy within a budget.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "adapt/text_assets.h"
#include "base/file_map.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "gates/calibration.h"
#include "gates/policy_search.h"
#include "gates/sensitivity.h"
#include "gates/sensitivity_json.h"

namespace firstlight::cli {
namespace {

constexpr size_t kMostShown = 20;

struct Outcome {
  gates::Calibration calibration;
  gates::Variant untouched;
  gates::Sensitivity sensitivity;
  std::optional<gates::PolicyProposal> proposal;
  int64_t runs = 0;
};

Result<std::vector<adapt::QuantChoice>> parse_choices(const std::string& text) {
  std::vector<adapt::QuantChoice> choices;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto choice = FL_TRY(adapt::QuantChoice::parse(word).with_context("--formats"));
    if (std::find(choices.begin(), choices.end(), choice) == choices.end()) choices.push_back(choice);
  }
  return choices.empty() ? Result<std::vector<adapt::QuantChoice>>(invalid_argument("--formats: none given")) : choices;
}

Result<std::optional<gates::Granularity>> parse_granularity(const std::string& text) {
  if (text.empty()) return std::optional<gates::Granularity>();
  for (const auto known : {gates::Granularity::kModule, gates::Granularity::kBlock, gates::Granularity::kLayer}) {
    if (text == gates::granularity_name(known)) return std::optional(known);
  }
  return invalid_argument("--by " + text + ": module, block or layer wanted");
}

int64_t vocabulary_of(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.output_names.size(); ++i) {
    const tensor::Shape& shape = graph.value(graph.body.yields[i]).type.shape;
    if (graph.output_names[i] == "logits" && !shape.empty()) return shape.back().factor;
  }
  return 1;
}

Result<gates::Calibration> calibrate(const SensitivityFlags& flags, const adapt::QuantSource& source) {
  const int64_t vocabulary = vocabulary_of(source.model.graph);
  if (!flags.tokens.empty()) {
    gates::Calibration given{.tokens = FL_TRY(parse_token_ids("--tokens", flags.tokens)), .origin = "--tokens"};
    if (given.tokens.size() < 2) return invalid_argument("--tokens: two or more wanted");
    return given;
  }
  const auto assets = adapt::load_text_assets(source.path, &source.checkpoint);
  std::optional<std::string> text;
  if (!flags.text.empty()) text = FL_TRY(read_text_file(flags.text));
  const int64_t count = std::min(flags.calibration, source.model.max_positions.value_or(flags.calibration));
  return gates::calibration_tokens(assets, text, flags.text, vocabulary, count);
}

std::optional<gates::PolicyBudget> budget_of(const SensitivityFlags& flags) {
  gates::PolicyBudget budget{.max_kl = flags.max_kl, .max_perplexity_increase = {}, .target_bytes = flags.target_bytes};
  if (flags.max_perplexity_increase) budget.max_perplexity_increase = *flags.max_perplexity_increase / 100;
  const bool any = budget.max_kl || budget.max_perplexity_increase || budget.target_bytes;
  return any ? std::optional(budget) : std::nullopt;
}

Json json_of(const Outcome& outcome, const SensitivityFlags& flags) {
  Json json = {{"calibration", {{"text", outcome.calibration.origin}, {"tokens", outcome.calibration.tokens.size()}}},
               {"untouched", gates::json_of(outcome.untouched)},
               {"runs", outcome.runs}};
  json.update(gates::json_of(outcome.sensitivity));
  if (!outcome.proposal) return json;
  const gates::PolicyProposal& proposal = *outcome.proposal;
  Json policy = gates::json_of(proposal.variant);
  policy["predicted_kl"] = proposal.predicted_kl;
  policy["rounds"] = proposal.rounds;
  policy["within_budget"] = proposal.within_budget;
  Json chosen = Json::object();
  for (const adapt::QuantRule& rule : proposal.policy.rules)
    chosen[rule.modules] = rule.choice ? rule.choice->name() : "keep";
  policy["chosen"] = std::move(chosen);
  if (!flags.output.empty()) policy["file"] = flags.output;
  json["policy"] = std::move(policy);
  return json;
}

void print_units(const Outcome& outcome) {
  const gates::Sensitivity& found = outcome.sensitivity;
  std::printf("\n%zu units (by %s), %lld of %zu formats run in each, the rest from rounding errors\n",
              found.units.size(), gates::granularity_name(found.granularity), static_cast<long long>(found.formats_run),
              found.units[0].formats.size());
  std::printf("most sensitive, each alone in its roughest format:\n%-11s %-9s %-11s %s\n", "KL", "top-1 %",
              "KL per MiB", "unit");
  size_t shown = 0;
  for (const gates::Unit& unit : found.units) {
    const gates::UnitFormat* format = unit.roughest();
    if (format == nullptr || shown++ == kMostShown) break;
    const double saved = static_cast<double>(std::max<int64_t>(1, unit.bytes - format->bytes)) / (1 << 20);
    std::printf("%-11.4g %-9.2f %-11.4g %s (%s)", format->kl, 100 * format->effect.top1, format->kl / saved,
                unit.name.c_str(), format->choice.name().c_str());
    if (unit.w8a8_kl) std::printf("; w8a8 %.3g", *unit.w8a8_kl);
    std::printf("\n");
  }
}

// Sums over the units of a kind, and over those of a layer.
void print_sums(const Outcome& outcome, const char* title, std::string gates::Unit::*key) {
  std::map<std::string, std::pair<double, int>> sums;
  for (const gates::Unit& unit : outcome.sensitivity.units) {
    const gates::UnitFormat* format = unit.roughest();
    if (format == nullptr) continue;
    auto& [kl, count] = sums[unit.*key];
    kl += format->kl;
    ++count;
  }
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [name, sum] : sums)
    rows.emplace_back(sum.first, name + " (" + std::to_string(sum.second) + " units)");
  std::sort(rows.rbegin(), rows.rend());
  if (rows.size() > kMostShown / 2) rows.resize(kMostShown / 2);
  std::printf("\n%s, sums:\n", title);
  for (const auto& [kl, name] : rows) std::printf("%-11.4g %s\n", kl, name.c_str());
}

void print_row(const std::string& name, const gates::Variant& variant) {
  std::printf("%-16s %-13lld %-11.4g %-9.2f %.4f\n", name.c_str(), static_cast<long long>(variant.bytes),
              variant.effect.kl, 100 * variant.effect.top1, variant.effect.perplexity);
}

void print_outcome(const Outcome& outcome, const SensitivityFlags& flags) {
  std::printf("calibrated on %zu tokens: %s; %lld runs\n", outcome.calibration.tokens.size(),
              outcome.calibration.origin.c_str(), static_cast<long long>(outcome.runs));
  print_units(outcome);
  print_sums(outcome, "by kind", &gates::Unit::kind);
  print_sums(outcome, "by layer", &gates::Unit::layer);
  std::printf("\nall weights that can be:\n%-16s %-13s %-11s %-9s %s\n", "", "bytes", "KL", "top-1 %", "perplexity");
  print_row("as they are", outcome.untouched);
  for (const gates::Whole& whole : outcome.sensitivity.wholes) print_row(whole.choice.name(), whole.variant);
  for (const auto& [mode, variant] : outcome.sensitivity.computed) print_row("--compute " + mode, variant);
  if (!outcome.proposal) return;
  const gates::PolicyProposal& proposal = *outcome.proposal;
  print_row("policy", proposal.variant);
  std::map<std::string, int> counts;
  for (const adapt::QuantRule& rule : proposal.policy.rules) ++counts[rule.choice ? rule.choice->name() : "keep"];
  std::printf("\npolicy (%d rounds, the units' effects sum up to %.4g):", proposal.rounds, proposal.predicted_kl);
  for (const auto& [name, count] : counts) std::printf(" %d %s", count, name.c_str());
  std::printf("%s\n", flags.output.empty() ? "" : ("; written to " + flags.output).c_str());
}

std::vector<std::string> head_of(const Outcome& outcome, const CommonFlags& common) {
  const gates::Variant& whole = outcome.proposal->variant;
  char measured[200];
  std::snprintf(measured, sizeof(measured), "%lld of %lld bytes; KL %.4g, top-1 %.2f %%, perplexity %.4f (was %.4f)",
                static_cast<long long>(whole.bytes), static_cast<long long>(outcome.untouched.bytes), whole.effect.kl,
                100 * whole.effect.top1, whole.effect.perplexity, outcome.untouched.effect.perplexity);
  return {"Which weights are stored in which format, for convert --policy; the first rule that names a module counts.",
          "Proposed by validate --sensitivity, measured as a whole on " +
              std::to_string(outcome.calibration.tokens.size()) + " tokens (backend " + common.backend + "):",
          measured, "Embeddings, the head, norms and routers stay as they are; no rule may say otherwise."};
}

Result<gates::Sensitivity> measure(const adapt::QuantPlanner& planner, gates::VariantRunner& runner,
                                   gates::SensitivityOptions options) {
  std::unique_ptr<Progress> bar;
  options.progress = [&](int64_t, int64_t total) {
    if (!bar) bar = std::make_unique<Progress>("sensitivity", total, ProgressOptions{.unit_name = "runs"});
    bar->advance(1);
  };
  auto found = gates::measure_sensitivity(planner, runner, options);
  if (bar) bar->finish();
  return found;
}

}  // namespace

Result<int> verb_sensitivity(const CommonFlags& common, const SensitivityFlags& flags) {
  std::error_code error;
  const auto temporary = std::filesystem::temp_directory_path(error);
  if (error) return invalid_argument("no folder for temporary files: " + error.message());
  const std::string scratch = (temporary / ("firstlight-variants-" + std::to_string(::getpid()))).string();
  const RemoveOnInterrupt guard(scratch);
  gates::SensitivityOptions options{.choices = FL_TRY(parse_choices(flags.formats)), .max_runs = flags.max_runs};
  options.activations = flags.activations;
  options.granularity = FL_TRY(parse_granularity(flags.by));
  const auto budget = budget_of(flags);
  if (!flags.output.empty() && !budget) {
    return invalid_argument("-o: a policy wants --max-kl, --max-perplexity-increase or --target-bytes");
  }
  gates::VariantOptions variants{.bring_up = FL_TRY(bring_up_options(common)), .tokens = {}, .scratch = scratch};
  variants.bring_up.buckets = scoring_buckets(0);
  // Formats are compared, not how their products are computed where nobody asks for that.
  if (!variants.bring_up.compute) variants.bring_up.compute = catalog::ComputeMode::kF32;
  const auto source = FL_TRY(adapt::open_quant_source(common.model, variants.bring_up.intake));
  const adapt::QuantPlanner planner(source);
  Outcome outcome{.calibration = FL_TRY(calibrate(flags, source)), .untouched = {}, .sensitivity = {}, .proposal = {}};
  variants.tokens = outcome.calibration.tokens;
  const auto runner = FL_TRY(gates::VariantRunner::create(planner, std::move(variants)));
  outcome.untouched = runner->untouched();

  if (flags.measured.empty()) {
    outcome.sensitivity = FL_TRY(measure(planner, *runner, std::move(options)));
  } else {
    const Json document = FL_TRY(parse_json(FL_TRY(read_text_file(flags.measured))).with_context(flags.measured));
    outcome.sensitivity = FL_TRY(gates::read_sensitivity(document, planner).with_context(flags.measured));
  }
  if (budget) {
    outcome.proposal = FL_TRY(
        gates::search_policy(outcome.sensitivity.units, *runner, *budget, [](const gates::PolicyProposal& proposal) {
          std::fprintf(stderr, "round %d: KL %.4g (sum of units %.4g), perplexity %.4f, %lld bytes\n", proposal.rounds,
                       proposal.variant.effect.kl, proposal.predicted_kl, proposal.variant.effect.perplexity,
                       static_cast<long long>(proposal.variant.bytes));
        }));
  }
  outcome.runs = runner->num_runs();
  if (!flags.output.empty()) {
    FL_TRY(write_file(flags.output, adapt::policy_text(outcome.proposal->policy, head_of(outcome, common))));
  }
  if (common.json) {
    print_json(json_of(outcome, flags));
  } else {
    print_outcome(outcome, flags);
  }
  return 0;
}

}  // namespace firstlight::cli
