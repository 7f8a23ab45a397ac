// SPDX-License-Identifier: Apache-2.0
#include "gates/model_gate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

#include "adapt/model_options.h"
#include "align/identity.h"
#include "align/rounding.h"
#include "base/json.h"
#include "gates/gates.h"
#include "gates/golden_text.h"
#include "gates/horizons.h"
#include "gates/logits_bound.h"
#include "ir/text.h"
#include "plan/look_ahead.h"

namespace firstlight::gates {
namespace {

constexpr int64_t kTextTokens = 128;  // of the prompt that perplexity and rounding are measured on
constexpr int64_t kBehind = 16;       // tokens that a long prompt goes on behind a horizon
constexpr int64_t kRows = 128;        // looked at per prompt
constexpr int64_t kPiece = 13;        // no divisor of any window, chunk or page
constexpr int64_t kStepwise = 24;     // tokens fed one by one at the end of a long prompt
constexpr double kCheapSeconds = 4;
constexpr double kRounds = 1e-6;  // a step above it is more than float32

std::string format(const char* pattern, auto... values) {
  char text[320];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Json sights_json(const std::map<std::string, align::Sight>& sights) {
  Json json = Json::object();
  for (const auto& [kind, sight] : sights) json[kind] = {{"sees", sight.sees}, {"why", sight.why}};
  return json;
}

class ModelGate {
 public:
  explicit ModelGate(Candidate& candidate)
      : candidate_(candidate),
        executor_(*candidate.loaded.executor),
        vocabulary_(vocabulary_of(executor_.plan())),
        in_one_(plan::sees_later_tokens(executor_.plan())),
        routed_(has_experts(candidate.loaded.model.graph)) {}

  Result<Verdict> run() {
    if (vocabulary_ == 0) return invalid_data("the model has no output 'logits'");
    if (!candidate_.options.baseline.empty()) FL_TRY(read_baseline());
    horizons_ = find_horizons(candidate_.loaded.model.graph, executor_.plan());
    FL_TRY(own_prompts());
    FL_TRY(long_prompt());
    if (given_) {
      for (const GoldenPrompt& prompt : given_->prompts) FL_TRY(compare(*given_, prompt, paths(prompt, true)));
    }
    return verdict();
  }

 private:
  // The sentence, and the text that rounding is measured on.
  Status own_prompts() {
    own_ = {.origin = "reference backend", .vocabulary = vocabulary_, .prompts = {}};
    const auto start = std::chrono::steady_clock::now();
    const auto sentence = default_golden_prompt(candidate_.text, vocabulary_);
    const int64_t continuation = candidate_.options.golden_continuation;
    const int64_t length = text_length();
    reference_.emplace(
        FL_TRY(Reference::create(candidate_.loaded, candidate_.bring_up,
                                 std::max(length, static_cast<int64_t>(sentence.size()) + continuation))));
    std::vector<int64_t> all(sentence.size());
    std::iota(all.begin(), all.end(), 0);
    own_.prompts.push_back(FL_TRY(reference_->run("a sentence", sentence, all, continuation)));
    const auto tokens = golden_tokens(candidate_.text, vocabulary_, length);
    const auto wanted = positions_to_check(length, {}, in_one_ ? kRows / 2 : kRows);
    const auto text_start = std::chrono::steady_clock::now();
    own_.prompts.push_back(
        FL_TRY(reference_->run(format("a text of %lld tokens", static_cast<long long>(length)), tokens, wanted, 0)));
    tokens_per_second_ = static_cast<double>(length) / seconds_since(text_start);
    FL_TRY(measure_rounding(own_.prompts.back(), wanted));
    reference_seconds_ += seconds_since(start);
    FL_TRY(compare(own_, own_.prompts[0], paths(own_.prompts[0], true)));
    FL_TRY(compare(own_, own_.prompts[1], paths(own_.prompts[1], true)));
    return ok_status();
  }

  int64_t longest_allowed() const {
    const auto& positions = candidate_.loaded.model.max_positions;
    return positions && *positions > 0 ? *positions : INT32_MAX;
  }
  int64_t text_length() const { return std::clamp<int64_t>(longest_allowed() - 1, 2, kTextTokens); }

  // What the rounding of this plan does to the reference, on the same prompt. None where it computes in float32.
  Status measure_rounding(const GoldenPrompt& prompt, const std::vector<int64_t>& wanted) {
    const align::Rounding rounding = align::rounding_of(executor_.plan());
    if (rounding.step <= kRounds) return ok_status();
    const auto compile = adapt::compile_options(candidate_.bring_up, candidate_.target, candidate_.loaded.model.graph);
    const ir::Graph graph = FL_TRY(align::with_rounded_products(candidate_.loaded.model.graph, compile));
    auto rounded = FL_TRY(
        Reference::create(candidate_.loaded, candidate_.bring_up, prompt.num_prompt, &graph, compile.state_dtype));
    const GoldenPrompt other = FL_TRY(rounded.run(prompt.name, prompt.tokens, wanted, 0));
    std::vector<RowResult> rows;
    for (size_t i = 0; i < other.rows.size(); ++i) {
      const auto next = static_cast<size_t>(other.rows[i].position) + 1;
      rows.push_back(compare_row(other.rows[i].logits, prompt.rows[i],
                                 next < prompt.tokens.size() ? prompt.tokens[next] : -1, own_.sketch_seed));
    }
    rounding_ = measured_rounding(executor_.plan(), rows, routed_);
    return ok_status();
  }

  // Past every horizon that the reference can afford.
  Status long_prompt() {
    const double budget = candidate_.options.reference_seconds;
    const auto affordable = static_cast<int64_t>(std::min(1e9, budget * tokens_per_second_));
    int64_t length = 0;
    for (const Horizon& horizon : horizons_) {
      const int64_t needed = horizon.length + kBehind;
      std::string why;
      if (needed > longest_allowed()) {
        why = format("%lld tokens are beyond the model's %lld positions", static_cast<long long>(needed),
                     static_cast<long long>(longest_allowed()));
      } else if (needed > affordable && needed > text_length()) {
        why = format("%lld tokens would take the reference %.0f s, %.0f s allowed", static_cast<long long>(needed),
                     static_cast<double>(needed) / tokens_per_second_, budget);
      } else {
        length = std::max(length, needed);
      }
      passed_horizons_.push_back({{"what", horizon.what}, {"length", horizon.length}, {"passed", why.empty()}});
      if (why.empty()) continue;
      passed_horizons_.back()["why"] = why;
      left_out_.push_back(horizon.what + ": " + why);
    }
    if (length <= own_.prompts[1].num_prompt) return ok_status();
    const auto start = std::chrono::steady_clock::now();
    if (in_one_) reference_.emplace(FL_TRY(Reference::create(candidate_.loaded, candidate_.bring_up, length)));
    const auto tokens = golden_tokens(candidate_.text, vocabulary_, length);
    const auto wanted = positions_to_check(length, horizons_, in_one_ ? kRows / 2 : kRows);
    own_.prompts.push_back(FL_TRY(
        reference_->run(format("a long text of %lld tokens", static_cast<long long>(length)), tokens, wanted, 0)));
    // A longer text may round otherwise; where that is cheap to know, it is measured.
    if (static_cast<double>(length) <= kCheapSeconds * tokens_per_second_) {
      FL_TRY(measure_rounding(own_.prompts.back(), wanted));
    }
    reference_seconds_ += seconds_since(start);
    return compare(own_, own_.prompts.back(), paths(own_.prompts.back(), false));
  }

  std::vector<Path> paths(const GoldenPrompt& prompt, bool is_short) {
    std::vector<Path> out = {{.name = "whole"}};
    if (in_one_) {
      only_whole_ = true;
      return out;
    }
    if (prompt.num_prompt > kPiece)
      out.push_back({.name = format("pieces of %lld", static_cast<long long>(kPiece)), .piece = kPiece});
    out.push_back(is_short ? Path{.name = "token by token", .stepwise = prompt.num_prompt}
                           : Path{.name = format("last %lld token by token", static_cast<long long>(kStepwise)),
                                  .stepwise = kStepwise});
    return out;
  }

  // The recording that was given, and what it can see.
  Status read_baseline() {
    const align::Pack pack = FL_TRY(align::read_pack(candidate_.options.baseline));
    given_ = FL_TRY(golden_of(pack, candidate_.options.baseline));
    const align::Pack tested = FL_TRY(tested_head());
    sights_ = align::visible_faults(pack, &tested);
    return ok_status();
  }

  // What a recording of the candidate would say of itself.
  Result<align::Pack> tested_head() const {
    align::Pack head{.origin = {{"kind", "firstlight"}, {"backend", executor_.plan().backend}}};
    head.spec_hash = align::hex64(ir::fingerprint(candidate_.loaded.model.graph));
    head.weights_hash = FL_TRY(align::weights_hash(*candidate_.loaded.checkpoint));
    return head;
  }

  LogitsRounding rounding_for(const Golden& golden, std::span<const RowResult> rows) const {
    if (!rounding_) return estimated_rounding(executor_.plan(), golden.rounding, rows);
    return golden.rounding > kRounds ? with_other(*rounding_, executor_.plan(), golden.rounding, rows) : *rounding_;
  }

  Status compare(const Golden& golden, const GoldenPrompt& prompt, const std::vector<Path>& along) {
    Json json = {{"name", prompt.name},
                 {"tokens", prompt.num_prompt},
                 {"continuation", static_cast<int64_t>(prompt.tokens.size()) - prompt.num_prompt},
                 {"paths", Json::array()}};
    longest_ = std::max(longest_, prompt.num_prompt);
    for (const Path& path : along) {
      const auto rows = FL_TRY(compare_prompt(executor_, golden, prompt, path));
      const LogitsTolerance tolerance = logits_tolerance(rounding_for(golden, rows), rows, routed_);
      const PathFigures figures = figures_of(rows, tolerance);
      const std::string fault = fault_of(figures, tolerance);
      if (!fault.empty() && fault_.empty()) fault_ = prompt.name + ", " + path.name + ": " + fault;
      if (!fault.empty() && first_wrong_ < 0) first_wrong_ = figures.worst_position;
      add_path(json, path, figures, tolerance, fault);
      if (&path == &along.front()) add_rows(json, rows, prompt);
      note(figures, tolerance, rows, &golden == &own_);
    }
    prompts_.push_back(std::move(json));
    return ok_status();
  }

  static void add_path(Json& prompt, const Path& path, const PathFigures& figures, const LogitsTolerance& tolerance,
                       const std::string& fault) {
    Json json = {
        {"path", path.name},
        {"passed", fault.empty()},
        {"rows", figures.rows},
        {"rel_l2", figures.rel_l2},
        {"allowed_rel_l2", tolerance.rows},
        {"worst_rel_l2", figures.worst_rel_l2},
        {"allowed_worst_rel_l2", tolerance.row},
        {"worst_position", figures.worst_position},
        {"max_abs", figures.max_abs},
        {"cosine", figures.cosine},
        {"kl", figures.kl},
        {"allowed_kl", tolerance.kl},
        {"worst_kl", figures.worst_kl},
        {"top1", static_cast<double>(figures.best_equal) / static_cast<double>(std::max<int64_t>(1, figures.rows))},
        {"top5", figures.top5},
        {"best_wrong", figures.best_wrong},
        {"scored", figures.scored}};
    if (figures.beyond > 0) json["rows_beyond"] = figures.beyond;
    if (figures.scored > 0) {
      json["perplexity"] = std::exp(figures.found_log_perplexity);
      json["wanted_perplexity"] = std::exp(figures.log_perplexity);
      json["log_perplexity_change"] = figures.found_log_perplexity - figures.log_perplexity;
      json["allowed_log_perplexity_change"] = tolerance.log_perplexity;
    }
    if (!fault.empty()) json["why"] = fault;
    prompt["paths"].push_back(std::move(json));
  }

  static void add_rows(Json& prompt, std::span<const RowResult> rows, const GoldenPrompt& golden) {
    Json list = Json::array();
    for (const RowResult& row : rows) {
      list.push_back(
          {{"position", row.position}, {"rel_l2", row.rel_l2}, {"kl", row.kl}, {"estimated", row.estimated}});
    }
    prompt["row_list"] = std::move(list);
    align::UlpHistogram ulps{};
    for (const RowResult& row : rows) {
      for (size_t bin = 0; bin < ulps.size(); ++bin) ulps[bin] += row.ulps[bin];
    }
    prompt["ulps"] = ulps;
    if (static_cast<int64_t>(golden.tokens.size()) == golden.num_prompt) return;
    Json wanted = Json::array(), found = Json::array();
    for (const RowResult& row : rows) {
      if (row.position < golden.num_prompt - 1) continue;
      wanted.push_back(row.best);
      found.push_back(row.found_best);
    }
    prompt["greedy"] = {{"wanted", std::move(wanted)}, {"found", std::move(found)}};
  }

  void note(const PathFigures& figures, const LogitsTolerance& tolerance, std::span<const RowResult> rows, bool own) {
    rows_ += figures.rows;
    best_equal_ += figures.best_equal;
    best_wrong_ += figures.best_wrong;
    for (const RowResult& row : rows) undecided_ += row.margin > tolerance.margin ? 0 : 1;
    if (!(figures.worst_rel_l2 <= worst_rel_l2_)) worst_rel_l2_ = figures.worst_rel_l2;
    allowed_rel_l2_ = std::max(allowed_rel_l2_, tolerance.row);
    worst_kl_ = std::max(worst_kl_, figures.kl);
    max_abs_ = std::max(max_abs_, figures.max_abs);
    cosine_ = std::min(cosine_, figures.cosine);
    if (own && figures.scored > scored_) {
      scored_ = figures.scored;
      perplexity_ = {std::exp(figures.found_log_perplexity), std::exp(figures.log_perplexity)};
    }
  }

  std::string summary() const {
    if (!fault_.empty()) return fault_;
    std::string text = format("logits within %.2e of the %s (%.2e allowed), best token equal in %lld of %lld rows",
                              worst_rel_l2_, given_ ? "reference and the baseline" : "reference", allowed_rel_l2_,
                              static_cast<long long>(best_equal_), static_cast<long long>(rows_));
    if (scored_ > 0) text += format(", perplexity %.3f against %.3f", perplexity_[0], perplexity_[1]);
    text += format("; longest prompt %lld tokens", static_cast<long long>(longest_));
    for (const std::string& entry : left_out_) text += "; left out: " + entry;
    return text;
  }

  Json rounding_json() const {
    if (!rounding_) return {{"measured", false}, {"step", align::rounding_of(executor_.plan()).step}};
    return {{"measured", true},          {"rel_l2", rounding_->rel_l2},
            {"kl", rounding_->kl},       {"surprise", rounding_->surprise},
            {"worst", rounding_->worst}, {"turned", rounding_->turned}};
  }

  Result<Verdict> verdict() {
    if (!given_) {
      const align::Pack ours{.origin = {{"kind", "firstlight"}, {"backend", "reference"}}};
      const align::Pack tested{.origin = {{"backend", executor_.plan().backend}}};
      sights_ = align::visible_faults(ours, &tested);
    }
    Json evidence = {{"baseline", given_ ? candidate_.options.baseline + " (" + given_->origin + ")" : own_.origin},
                     {"sees", sights_json(sights_)},
                     {"rounding", rounding_json()},
                     {"bound_rel_l2", allowed_rel_l2_},
                     {"worst_rel_l2", worst_rel_l2_},
                     {"worst_max_abs", max_abs_},
                     {"least_cosine", cosine_},
                     {"worst_mean_kl", worst_kl_},
                     {"rows", rows_},
                     {"best_equal", best_equal_},
                     {"best_wrong", best_wrong_},
                     {"best_undecided", undecided_},
                     {"first_wrong_position", first_wrong_},
                     {"horizons", passed_horizons_},
                     {"left_out", left_out_},
                     {"reference",
                      {{"seconds", reference_seconds_},
                       {"tokens_per_s", tokens_per_second_},
                       {"budget_s", candidate_.options.reference_seconds}}},
                     {"prompts", prompts_},
                     {"golden_tokens", own_.prompts[0].tokens}};
    if (scored_ > 0)
      evidence["perplexity"] = {{"found", perplexity_[0]}, {"wanted", perplexity_[1]}, {"tokens", scored_}};
    if (only_whole_) evidence["only_whole"] = "attention sees later tokens: no prompt comes in pieces";
    candidate_.golden = given_ ? *given_ : own_;
    candidate_.golden.routed = routed_;
    candidate_.golden.own = !given_;
    candidate_.golden.prompts.resize(1);  // what readiness asks again
    return Verdict{.passed = fault_.empty(), .summary = summary(), .evidence = dump_json(evidence)};
  }

  Candidate& candidate_;
  runtime::Executor& executor_;
  int64_t vocabulary_;
  bool in_one_, routed_, only_whole_ = false;
  std::vector<Horizon> horizons_;
  std::optional<Reference> reference_;
  Golden own_;
  std::optional<Golden> given_;
  std::map<std::string, align::Sight> sights_;
  std::optional<LogitsRounding> rounding_;  // measured, on the text that was last
  double tokens_per_second_ = 0, reference_seconds_ = 0;
  std::vector<std::string> left_out_;
  Json passed_horizons_ = Json::array(), prompts_ = Json::array();
  std::string fault_;
  int64_t first_wrong_ = -1, longest_ = 0;
  int64_t rows_ = 0, best_equal_ = 0, best_wrong_ = 0, undecided_ = 0, scored_ = 0;
  double worst_rel_l2_ = 0, allowed_rel_l2_ = 0, worst_kl_ = 0, max_abs_ = 0, cosine_ = 1;
  std::array<double, 2> perplexity_{};
};

}  // namespace

Result<Verdict> model_gate(Candidate& candidate) { return ModelGate(candidate).run(); }

}  // namespace firstlight::gates
