// SPDX-License-Identifier: Apache-2.0
// baseline and the verbs below it: their flags.
#include <CLI/CLI.hpp>

#include "cli/common_flags.h"

namespace firstlight::cli {
namespace {

constexpr int64_t kMostGreedy = 1 << 20;

void add_piece_flags(CLI::App* sub, BaselineFlags& flags) {
  sub->add_option("--chunk", flags.chunk, "tokens of a prompt per run (default: as many as are useful)")
      ->check(whole_from(1));
  sub->add_flag("--batched", flags.batched, "all prompts in one batch");
  add_bytes_flag(sub, "--memory-limit", flags.memory_limit, "bytes of the whole process: out of core, layer by layer",
                 1);
}

void add_run_flags(CLI::App* sub, BaselineFlags& flags) {
  sub->add_flag("--operators", flags.operators, "every operator's result, not the layers' alone");
  add_piece_flags(sub, flags);
}

// A verb that runs on the reference backend unless another is asked for.
void prefer_reference(CLI::App* sub, CommonFlags& common) {
  sub->get_option("--backend")->default_str("reference");
  sub->parse_complete_callback([&common, sub] {
    if (sub->count("--backend") == 0) common.backend = "reference";
  });
}

void add_record(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* record = add_verb(baseline, line, "record", "layers' outputs for given prompts, as a golden pack",
                              [&] { return verb_baseline_record(common, flags); });
  prefer_reference(record, common);
  add_model(record, common);
  add_compute_flags(record, common);
  auto* prompts = record->add_option("--prompts", flags.prompts,
                                     "file: a text per line, or JSON with texts and lists of token ids");
  record->add_option("--tokens", flags.tokens, "one prompt as token ids")->excludes(prompts);
  record->add_option("-o", flags.output, "directory to write")->required();
  record->add_option("--full", flags.full, "keep all rows of these values; all: of every one")->delimiter(',');
  record->add_flag("--experts", flags.experts, "values inside experts too, by token and slot (with --operators)");
  record->add_option("--greedy", flags.greedy, "tokens of the continuation")
      ->check(whole_from(0, kMostGreedy))
      ->capture_default_str();
  record->add_flag("--rounded", flags.rounded,
                   "run the reference, the operands of products rounded as --backend and --compute have them");
  add_run_flags(record, flags);
}

void add_compare(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* compare = add_verb(baseline, line, "compare", "two packs, or a pack and a model, value by value",
                               [&] { return verb_baseline_compare(common, flags); });
  compare->add_option("PACK", flags.first, "the baseline (with --baseline: the model)")->required();
  auto* second = compare->add_option("OTHER", flags.second, "the pack that is compared with it");
  auto* model = compare->add_option("--model", common.model, "record this model and compare it")->excludes(second);
  compare->add_option("--baseline", flags.baseline, "the baseline, where the first word is the model")
      ->excludes(model)
      ->excludes(second);
  compare->add_option("--rounded", flags.rounded_pack,
                      "a pack of the reference with rounded operands (record --rounded)");
  compare->add_flag("--two-way", flags.two_way, "do not run the reference with rounded operands");
  compare->add_option("--html", flags.html, "write the report to this file")->check(writable_file());
  compare->add_flag("--all", flags.all, "print every value, not the layers and what is wrong");
  add_compute_flags(compare, common);
  add_run_flags(compare, flags);
}

void add_vote(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* vote = add_verb(baseline, line, "vote", "three packs or more: which of them is the outlier, layer by layer",
                            [&] { return verb_baseline_vote(common, flags); });
  vote->add_option("PACK", flags.packs, "recordings of the same prompts; NAME=PACK gives one a name")->required();
  vote->add_option("--model", common.model, "record this model as one more voter");
  vote->add_option("--html", flags.html, "write the report to this file")->check(writable_file());
  vote->add_flag("--all", flags.all, "print every value, not the layers and what is not agreed");
  add_compute_flags(vote, common);
  add_run_flags(vote, flags);
}

void add_join(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* join = add_verb(baseline, line, "join", "recordings of the ranks of a sharded run, put together",
                            [&] { return verb_baseline_join(common, flags); });
  join->add_option("PACK", flags.packs, "one recording per rank, all of them")->required();
  join->add_option("-o", flags.output, "directory to write")->required();
}

void add_locate(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* locate = add_verb(baseline, line, "locate", "the first wrong operator, the kind of fault, what to change",
                              [&] { return verb_baseline_locate(common, flags); });
  locate->add_option("PACK", flags.first, "the baseline (with --baseline: the model)")->required();
  auto* suspect = locate->add_option("--model", common.model, "the model that does not agree with it");
  locate->add_option("--baseline", flags.baseline, "the baseline, where the first word is the model")
      ->excludes(suspect);
  add_piece_flags(locate, flags);
  locate->add_flag("--exact", flags.exact, "the backend's own rounding counts as a fault");
  locate->add_option("-o", flags.output, "directory for a small reproduction of the first fault")
      ->check(writable_folder());
  add_compute_flags(locate, common);
}

void add_reproduce(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* reproduce = add_verb(baseline, line, "reproduce", "a fault from the folder that locate -o wrote",
                                 [&] { return verb_baseline_reproduce(common, flags); });
  prefer_reference(reproduce, common);
  reproduce->add_option("DIR", flags.first, "that folder")->required();
  reproduce->add_option("--model", common.model, "the model, where its tensors were too large to lie beside");
  reproduce->add_option("--chunk", flags.chunk, "tokens of a prompt per run")->check(whole_from(1));
  add_compute_flags(reproduce, common);
}

void add_values(CLI::App& baseline, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* values = add_verb(baseline, line, "values", "what a recording has: names, operators, layers, widths",
                              [&] { return verb_baseline_values(common, flags); });
  add_model(values, common);
  add_spec_flags(values, common);
}

}  // namespace

void add_baseline_verbs(CLI::App& app, CommandLine& line) {
  CLI::App* baseline = app.add_subcommand("baseline", "golden packs: what a model computes, recorded and compared");
  baseline->require_subcommand(1);
  for (const auto add : {add_record, add_compare, add_vote, add_join, add_locate, add_reproduce, add_values}) {
    add(*baseline, line);
  }
}

}  // namespace firstlight::cli
