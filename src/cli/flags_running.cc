// SPDX-License-Identifier: Apache-2.0
// The verbs that run a model, but for the server: their flags.
#include <CLI/CLI.hpp>
#include <vector>

#include "cli/common_flags.h"

namespace firstlight::cli {
namespace {

void add_adapt(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* adapt = add_verb(app, line, "adapt", "the main job: all gates, a report, then an answer",
                             [&] { return verb_adapt(common, line.adapt); });
  add_model(adapt, common);
  add_compute_flags(adapt, common);
  adapt->add_option("--baseline", line.adapt.baseline, "compare with this golden pack");
  adapt->add_option("--targets", line.adapt.targets, "performance wanted (TOML)");
  adapt->add_option("--budget", line.adapt.budget, "seconds that the reference may take for a long prompt")
      ->capture_default_str();
  adapt->add_option("--report", line.adapt.report, "directory for the report and the gates' evidence")
      ->check(writable_folder());
  adapt->add_option("-p,--prompt", line.adapt.prompt, "what to ask in the end");
  adapt->add_flag("--serve", line.adapt.serve, "serve when all gates are open");
  add_server_flags(adapt, line.adapt.host, line.adapt.port, line.adapt.api_key);
}

void add_sensitivity_flags(CLI::App* sub, SensitivityFlags& flags) {
  auto* wanted = sub->add_flag("--sensitivity", flags.wanted,
                               "no gate: how far each weight in fewer bits moves the logits (docs/mixed_precision.md)");
  for (const char* other : {"--level", "--baseline", "--targets", "--report"}) wanted->excludes(sub->get_option(other));
  auto* text = sub->add_option("--text", flags.text, "calibrate on this file (default: a text in the program)");
  std::vector<CLI::Option*> options = {
      text,
      sub->add_option("--tokens", flags.tokens, "calibrate on these token ids")->excludes(text),
      sub->add_option("--calibration", flags.calibration, "tokens to calibrate on")
          ->check(whole_from(1))
          ->capture_default_str(),
      sub->add_option("--formats", flags.formats, "int8, int4 (with a group: int4:32), fp8, mxfp4")
          ->capture_default_str(),
      sub->add_option("--by", flags.by, "module, block or layer at a time (default: the finest within --max-runs)"),
      sub->add_option("--max-runs", flags.max_runs, "of the model, one unit changed at a time")
          ->check(whole_from(1))
          ->capture_default_str(),
      sub->add_flag("--activations", flags.activations, "a run more per unit: int8 weights in the compute mode w8a8")};
  options.push_back(sub->add_option("--measured", flags.measured,
                                    "take the units' effects from what an earlier run printed with --json"));
  for (const char* other : {"--formats", "--by", "--max-runs", "--activations"}) {
    options.back()->excludes(sub->get_option(other));
  }
  auto* kl = sub->add_option("--max-kl", flags.max_kl, "propose a policy: divergence of the logits, in nats");
  auto* perplexity = sub->add_option("--max-perplexity-increase", flags.max_perplexity_increase, "propose one: in %");
  auto* bytes = add_bytes_flag(sub, "--target-bytes", flags.target_bytes, "propose one: of all tensors", 1);
  kl->excludes(perplexity)->excludes(bytes);
  perplexity->excludes(bytes);
  for (auto* budget : {kl, perplexity}) budget->check(positive());
  options.insert(options.end(), {kl, perplexity, bytes});
  options.push_back(
      sub->add_option("-o", flags.output, "write the policy to this file (TOML)")->check(writable_file()));
  for (auto* option : options) option->needs(wanted);
}

void add_validate(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* validate = add_verb(app, line, "validate", "one level's gate, or all of them", [&] {
    return line.sensitivity.wanted ? verb_sensitivity(common, line.sensitivity) : verb_validate(common, line.validate);
  });
  add_model(validate, common);
  add_compute_flags(validate, common);
  validate->add_option("--level", line.validate.level, "op, layer, model, perf or all")->capture_default_str();
  validate->add_option("--baseline", line.validate.baseline, "compare with this golden pack");
  validate->add_option("--targets", line.validate.targets, "performance wanted (TOML)");
  validate->add_option("--budget", line.validate.budget, "seconds that the reference may take for a long prompt")
      ->capture_default_str();
  validate->add_option("--report", line.validate.report, "directory for the report and the gates' evidence")
      ->check(writable_folder());
  add_sensitivity_flags(validate, line.sensitivity);
}

void add_sampling_flags(CLI::App* sub, SamplingFlags& flags) {
  sub->add_option("--temperature", flags.temperature, "0: greedy")->capture_default_str();
  sub->add_option("--top-k", flags.top_k, "0: all")->capture_default_str();
  sub->add_option("--top-p", flags.top_p)->capture_default_str();
  sub->add_option("--min-p", flags.min_p)->capture_default_str();
  sub->add_option("--repetition-penalty", flags.repetition_penalty)->capture_default_str();
  sub->add_option("--presence-penalty", flags.presence_penalty)->capture_default_str();
  sub->add_option("--frequency-penalty", flags.frequency_penalty)->capture_default_str();
  sub->add_option("--logit-bias", flags.logit_bias, "ID=VALUE (repeatable)");
  sub->add_option("--seed", flags.seed, "absent: a fresh one");
  sub->add_option("--logprobs", flags.logprobs, "log-probabilities of the chosen and the N likeliest tokens (--json)")
      ->check(CLI::Range(0, 1000000));
}

void add_run(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* run = add_verb(app, line, "run", "one prompt, text to stdout", [&] { return verb_run(common, line.run); });
  add_model(run, common);
  add_compute_flags(run, common);
  add_invariant_flag(run, common);
  add_trace_flag(run, common);
  add_chat_flag(run, common);
  add_chat_variables_flag(run, common);
  auto* prompt = run->add_option("-p,--prompt", line.run.prompt, "the user's message");
  run->add_option("--tokens", line.run.tokens, "the prompt as token ids")->excludes(prompt);
  auto* system = run->add_option("-s,--system", line.run.system, "the system message")->excludes("--tokens");
  auto* raw = run->add_flag("--raw", line.run.raw, "no chat template")->excludes(system);
  add_chat_format_flag(run, line.run.chat_format)->excludes(raw)->excludes("--tokens");
  run->add_option("--image", line.run.image, "an image for the model to look at");
  run->add_option("-n,--max-tokens", line.run.max_tokens)->capture_default_str();
  run->add_option("--context", line.run.context,
                  "tokens of prompt and output together (default: the model's, or what fits)")
      ->check(whole_from(1));
  run->add_option("--stop", line.run.stop, "end the text before this string (repeatable)");
  run->add_option("--stop-ids", line.run.stop_ids, "end at these token ids");
  run->add_option("--json-schema", line.run.json_schema, "the output is a document of the JSON Schema in this file");
  run->add_option("--regex", line.run.regex, "the output matches this regular expression, whole");
  run->add_option("--grammar", line.run.grammar, "the output is a text of the grammar in this file");
  run->add_flag("--ignore-eos", line.run.ignore_eos, "do not stop at the model's own end tokens");
  add_speculate_flag(run, line.run.speculate);
  add_sampling_flags(run, line.run.sampling);
}

void add_logits(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* logits =
      add_verb(app, line, "logits", "logits for token ids (float32)", [&] { return verb_logits(common, line.logits); });
  add_model(logits, common);
  add_compute_flags(logits, common);
  add_invariant_flag(logits, common);
  add_trace_flag(logits, common);
  logits->add_option("--tokens", line.logits.tokens)->required();
  logits->add_flag("--last", line.logits.last, "the last position only");
  auto* chunk = logits->add_option("--chunk", line.logits.chunk, "tokens per run")->check(whole_from(1));
  logits->add_flag("--stepwise", line.logits.stepwise, "one token per run")->excludes(chunk);
  logits->add_option("-o", line.logits.output, "write [positions, vocabulary] to this .npy file")
      ->check(writable_file());
}

void add_perplexity(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* perplexity = add_verb(app, line, "perplexity", "perplexity of a text file",
                                  [&] { return verb_perplexity(common, line.perplexity); });
  add_model(perplexity, common);
  perplexity->add_option("FILE", line.perplexity.file)->required();
  add_compute_flags(perplexity, common);
  add_trace_flag(perplexity, common);
  perplexity->add_option("--window", line.perplexity.window)->capture_default_str();
  perplexity->add_option("--stride", line.perplexity.stride)->capture_default_str();
  perplexity->add_option("--beside-kv-dtype", line.perplexity.beside_kv,
                         "score the same with keys and values as this too; divergences from it");
}

void add_bench(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* bench = add_verb(app, line, "bench", "time to first token and throughput over lengths and batches",
                             [&] { return verb_bench(common, line.bench); });
  add_model(bench, common);
  add_compute_flags(bench, common);
  add_invariant_flag(bench, common);
  add_trace_flag(bench, common);
  bench->add_option("--prompt", line.bench.prompt, "prompt lengths, comma-separated")->capture_default_str();
  bench->add_option("--depth", line.bench.depth, "tokens already in the context")->capture_default_str();
  bench->add_option("--batch", line.bench.batch, "sequences at once")->capture_default_str();
  bench->add_option("--decode", line.bench.decode, "tokens to generate")->capture_default_str();
  add_speculate_flag(bench, line.bench.speculate);
}

}  // namespace

void add_running_verbs(CLI::App& app, CommandLine& line) {
  for (const auto add : {add_adapt, add_validate, add_run, add_logits, add_perplexity, add_bench}) add(app, line);
}

}  // namespace firstlight::cli
