// SPDX-License-Identifier: Apache-2.0
// The command line: flags to verbs, Status to exit status.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/streams.h"
#include "cli/verbs.h"

namespace {

using namespace firstlight;       // NOLINT: the composition root speaks to everything
using namespace firstlight::cli;  // NOLINT

int exit_status(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kOutOfMemory:
    case StatusCode::kCancelled:
      return 1;
    case StatusCode::kInvalidArgument:
    case StatusCode::kInvalidData:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
      return 2;
    case StatusCode::kUnavailable:
    case StatusCode::kInternal:
      return 3;
  }
  return 3;
}

struct CommandLine {
  CommonFlags common;
  AdaptFlags adapt;
  ValidateFlags validate;
  SensitivityFlags sensitivity;
  GraphFlags graph;
  PlanFlags plan;
  EmbedFlags embed;
  RunFlags run;
  LogitsFlags logits;
  TokenizeFlags tokenize;
  RenderFlags render;
  PerplexityFlags perplexity;
  BaselineFlags baseline;
  ConvertFlags convert;
  TwinFlags twin;
  DevicesFlags devices;
  BenchFlags bench;
  ServeFlags serve;
  std::function<Result<int>()> chosen;
};

CLI::App* add_verb(CLI::App& app, CommandLine& line, const char* name, const char* what,
                   std::function<Result<int>()> verb) {
  CLI::App* sub = app.add_subcommand(name, what);
  sub->callback([&line, verb = std::move(verb)] { line.chosen = verb; });
  sub->add_flag("--json", line.common.json, "one JSON document on stdout, nothing else there");
  sub->add_option("--backend", line.common.backend, "reference, cpu, simt, opencl, cuda or musa")
      ->capture_default_str();
  sub->add_option("--threads", line.common.threads, "0: all cores this process may use")->capture_default_str();
  sub->add_option("--warp", line.common.warp, "lanes of a warp (simt: 32, 64 or 128); 0: the device's own")
      ->capture_default_str();
  return sub;
}

void add_model(CLI::App* sub, CommonFlags& common) {
  sub->add_option("MODEL", common.model, "a Hugging Face style directory or a GGUF file")->required();
}

void add_spec_flags(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--spec", common.spec, "run this spec instead of the one that matches");
  sub->add_option("--architectures", common.architectures,
                  "read specs from this directory instead of the built-in ones");
  sub->add_flag("--vendor-activations", common.vendor_activations,
                "round activations as the checkpoint's quantisation says (docs/numerics.md)");
  sub->add_option("--allow-unbound", common.allow_unbound, "admit one config key or tensor nobody uses (repeatable)");
}

void add_compute_flags(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--compute", common.compute,
                  "auto (by each weight's type), f32, bf16, w8a8 (w4a8 is the same), w4a16 or fp8")
      ->capture_default_str();
  sub->add_option("--kv-dtype", common.kv_dtype,
                  "of keys and values: f32, f16, bf16, fp8, int8 or int4 (default: f16; f32 on the reference backend)");
  sub->add_option("--evict", common.evict,
                  "sinks:N,window:M: full attention sees and keeps the first N tokens and the last M; default: all");
  sub->add_option("--no-pass", common.no_pass, "leave out this compiler pass (repeatable)");
  sub->add_flag("--no-tuned", common.no_tuned, "the plainest kernel of each step");
  auto* none = sub->add_flag("--no-generated", common.no_generated, "no generated kernels");
  sub->add_option(
         "--generated", common.generated,
         "cached (what an earlier run built), background or wait; default: cached, serve background, bench wait")
      ->excludes(none);
  sub->add_option("--canary", common.canary,
                  "compare every Nth batch with plain kernels and stop using one that differs; 0: never")
      ->capture_default_str();
  sub->add_option("--tp", common.tp, "ranks of tensor parallelism")->capture_default_str();
  sub->add_option("--pp", common.pp, "ranks of pipeline parallelism")->capture_default_str();
  sub->add_option("--ep", common.ep, "ranks of expert parallelism")->capture_default_str();
  add_spec_flags(sub, common);
}

void add_invariant_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_flag("--invariant", common.invariant,
                "the same bytes for a request whatever else is computed, and in whatever pieces (docs/determinism.md)");
}

void add_speculate_flag(CLI::App* sub, std::string& speculate) {
  sub->add_option(
      "--speculate", speculate,
      "off (the default), or ngram[:N]: up to N tokens guessed ahead from the text so far, the same output");
}

void add_chat_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--prompt-from", common.prompt_from,
                  "template (the checkpoint's), spec (its render function) or auto: the template where there is one")
      ->capture_default_str();
}

void add_chat_variables_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--chat-variables", common.chat_variables,
                  "further variables of the prompt, as a JSON object: {\"enable_thinking\": false}");
}

void add_trace_flag(CLI::App* sub, CommonFlags& common) {
  sub->add_option("--trace", common.trace, "write step timers to this file (Chrome trace format)");
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

// A whole number of this range.
std::function<std::string(const std::string&)> whole_from(int64_t least, int64_t most = INT64_MAX) {
  return [least, most](const std::string& word) -> std::string {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    if (whole && number >= least && number <= most) return "";
    return "'" + word + "' is no whole number from " + std::to_string(least) +
           (most == INT64_MAX ? " up" : " to " + std::to_string(most));
  };
}

// A value that is there: an unset variable in a shell is "", and would be taken as if the flag were not given.
std::function<std::string(const std::string&)> not_empty() {
  return [](const std::string& word) -> std::string { return word.empty() ? "an empty value" : ""; };
}

// A time that ends: 0 to a year.
std::function<std::string(const std::string&)> seconds() {
  return [](const std::string& word) -> std::string {
    constexpr double kYear = 366.0 * 24 * 3600;
    double number = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    return whole && number >= 0 && number <= kYear ? "" : "'" + word + "': 0 to 31622400 seconds wanted";
  };
}

void add_server_flags(CLI::App* sub, std::string& host, int& port, std::string& api_key) {
  sub->add_option("--host", host)->capture_default_str();
  sub->add_option("--port", port, "0: any free one")->check(CLI::Range(0, 65535))->capture_default_str();
  sub->add_option("--api-key", api_key, "wanted as 'Authorization: Bearer KEY'")->check(not_empty());
}

void add_operation_flags(CLI::App* sub, ServeFlags& flags) {
  sub->add_option("--request-timeout", flags.request_timeout,
                  "seconds of one request, waiting included; a request may ask for fewer")
      ->check(CLI::PositiveNumber)
      ->check(seconds())
      ->capture_default_str();
  sub->add_option("--drain-timeout", flags.drain_timeout, "seconds that a stop leaves to running requests")
      ->check(seconds())
      ->capture_default_str();
  sub->add_option("--max-body", flags.max_body, "bytes of one request's body")
      ->transform(CLI::AsSizeValue(false))
      ->check(whole_from(1))
      ->capture_default_str();
  sub->add_option("--max-connections", flags.max_connections)->check(CLI::PositiveNumber)->capture_default_str();
  sub->add_option("--log-format", flags.log_format, "text or json: a line per request, on stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub->add_flag("--trace-requests", flags.trace_requests,
                "keep the trace of every request, as 'X-Trace: 1' does of one (GET /v1/traces/ID)");
}

void add_sensitivity_flags(CLI::App* sub, SensitivityFlags& flags) {
  auto* wanted = sub->add_flag("--sensitivity", flags.wanted,
                               "no gate: how far each weight in fewer bits moves the logits (docs/mixed_precision.md)");
  for (const char* other : {"--level", "--baseline", "--targets", "--report"}) wanted->excludes(sub->get_option(other));
  auto* text = sub->add_option("--text", flags.text, "calibrate on this file (default: a text in the program)");
  std::vector<CLI::Option*> options = {
      text,
      sub->add_option("--tokens", flags.tokens, "calibrate on these token ids")->excludes(text),
      sub->add_option("--calibration", flags.calibration, "tokens to calibrate on")->capture_default_str(),
      sub->add_option("--formats", flags.formats, "int8, int4 (with a group: int4:32), fp8, mxfp4")
          ->capture_default_str(),
      sub->add_option("--by", flags.by, "module, block or layer at a time (default: the finest within --max-runs)"),
      sub->add_option("--max-runs", flags.max_runs, "of the model, one unit changed at a time")
          ->check(CLI::PositiveNumber)
          ->capture_default_str(),
      sub->add_flag("--activations", flags.activations, "a run more per unit: int8 weights in the compute mode w8a8")};
  options.push_back(sub->add_option("--measured", flags.measured,
                                    "take the units' effects from what an earlier run printed with --json"));
  for (const char* other : {"--formats", "--by", "--max-runs", "--activations"}) {
    options.back()->excludes(sub->get_option(other));
  }
  auto* kl = sub->add_option("--max-kl", flags.max_kl, "propose a policy: divergence of the logits, in nats");
  auto* perplexity = sub->add_option("--max-perplexity-increase", flags.max_perplexity_increase, "propose one: in %");
  auto* bytes = sub->add_option("--target-bytes", flags.target_bytes, "propose one: of all tensors");
  kl->excludes(perplexity)->excludes(bytes);
  perplexity->excludes(bytes);
  for (auto* budget : {kl, perplexity, bytes}) {
    budget->check(CLI::PositiveNumber);
    options.push_back(budget);
  }
  options.push_back(sub->add_option("-o", flags.output, "write the policy to this file (TOML)"));
  for (auto* option : options) option->needs(wanted);
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

void add_running_verbs(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* adapt = add_verb(app, line, "adapt", "the main job: all gates, a report, then an answer",
                             [&] { return verb_adapt(common, line.adapt); });
  add_model(adapt, common);
  add_compute_flags(adapt, common);
  adapt->add_option("--baseline", line.adapt.baseline, "compare with this golden pack");
  adapt->add_option("--targets", line.adapt.targets, "performance wanted (TOML)");
  adapt->add_option("--budget", line.adapt.budget, "seconds that the reference may take for a long prompt")
      ->capture_default_str();
  adapt->add_option("--report", line.adapt.report, "directory for the report and the gates' evidence");
  adapt->add_option("-p,--prompt", line.adapt.prompt, "what to ask in the end");
  adapt->add_flag("--serve", line.adapt.serve, "serve when all gates are open");
  add_server_flags(adapt, line.adapt.host, line.adapt.port, line.adapt.api_key);

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
  validate->add_option("--report", line.validate.report, "directory for the report and the gates' evidence");
  add_sensitivity_flags(validate, line.sensitivity);

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
  run->add_flag("--raw", line.run.raw, "no chat template")->excludes(system);
  run->add_option("--image", line.run.image, "an image for the model to look at");
  run->add_option("-n,--max-tokens", line.run.max_tokens)->capture_default_str();
  run->add_option("--context", line.run.context,
                  "tokens of prompt and output together (default: the model's, or what fits)");
  run->add_option("--stop", line.run.stop, "end the text before this string (repeatable)")->check(not_empty());
  run->add_option("--stop-ids", line.run.stop_ids, "end at these token ids");
  run->add_option("--json-schema", line.run.json_schema, "the output is a document of the JSON Schema in this file")
      ->check(not_empty());
  run->add_option("--regex", line.run.regex, "the output matches this regular expression, whole")->check(not_empty());
  run->add_option("--grammar", line.run.grammar, "the output is a text of the grammar in this file")
      ->check(not_empty());
  run->add_flag("--ignore-eos", line.run.ignore_eos, "do not stop at the model's own end tokens");
  add_speculate_flag(run, line.run.speculate);
  add_sampling_flags(run, line.run.sampling);

  CLI::App* logits =
      add_verb(app, line, "logits", "logits for token ids (float32)", [&] { return verb_logits(common, line.logits); });
  add_model(logits, common);
  add_compute_flags(logits, common);
  add_invariant_flag(logits, common);
  add_trace_flag(logits, common);
  logits->add_option("--tokens", line.logits.tokens)->required();
  logits->add_flag("--last", line.logits.last, "the last position only");
  auto* chunk = logits->add_option("--chunk", line.logits.chunk, "tokens per run");
  logits->add_flag("--stepwise", line.logits.stepwise, "one token per run")->excludes(chunk);
  logits->add_option("-o", line.logits.output, "write [positions, vocabulary] to this .npy file");

  add_perplexity(app, line);

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

  CLI::App* serve =
      add_verb(app, line, "serve", "OpenAI-compatible server", [&] { return verb_serve(common, line.serve); });
  add_model(serve, common);
  add_compute_flags(serve, common);
  add_invariant_flag(serve, common);
  add_speculate_flag(serve, line.serve.speculate);
  add_trace_flag(serve, common);
  add_chat_flag(serve, common);
  add_server_flags(serve, line.serve.host, line.serve.port, line.serve.api_key);
  serve->add_option("--context", line.serve.context,
                    "tokens of prompt and output together (default: the model's, or what fits)");
  serve->add_option("--chat-format", line.serve.chat_format,
                    "how answers are read: auto (default), none, a name or a file of docs/chat_formats.md");
  serve->add_option("--baseline", line.serve.baseline, "reproduce this golden pack before being ready");
  serve->add_option("--max-sequences", line.serve.max_sequences, "requests computed at one time")
      ->capture_default_str();
  serve->add_option("--max-waiting", line.serve.max_waiting, "requests that may wait; further ones get status 429")
      ->capture_default_str();
  serve->add_option("--step-tokens", line.serve.step_tokens,
                    "tokens one step computes (default: all that a step takes)");
  serve->add_option("--state-bytes", line.serve.state_bytes, "for the state of all requests (default: what is free)")
      ->transform(CLI::AsSizeValue(false));
  serve->add_flag("--reserve", line.serve.reserve,
                  "let a request in only when there is room for its longest answer: nobody is ever put out");
  serve->add_option("--swap-memory", line.serve.swap_memory, "bytes of memory for requests put out")
      ->transform(CLI::AsSizeValue(false));
  serve->add_option("--swap-disk", line.serve.swap_disk, "bytes of a file for requests put out")
      ->transform(CLI::AsSizeValue(false));
  serve->add_option("--swap-folder", line.serve.swap_folder, "where that file is (default: the system's)");
  serve->add_flag("--embeddings", line.serve.embeddings,
                  "answer /v1/embeddings too (default where the model's files are of sentence-transformers)");
  serve->add_option("--pooling", line.serve.pooling,
                    "of embeddings: last, mean or cls (default: as the files say, else last)");
  serve->add_flag("--no-normalise", line.serve.no_normalise, "leave embeddings as long as they are");
  serve->add_flag("--shorten-embeddings", line.serve.shorten_embeddings,
                  "the model was trained so that the first dimensions stand alone: allow fewer");
  serve->add_flag("--no-prefix-reuse", line.serve.no_prefix_reuse, "compute every prompt from its beginning");
  add_operation_flags(serve, line.serve);
}

void add_embed_verb(CLI::App& app, CommandLine& line) {
  EmbedFlags& flags = line.embed;
  CLI::App* embed = add_verb(app, line, "embed", "embeddings of texts", [&] { return verb_embed(line.common, flags); });
  add_model(embed, line.common);
  add_compute_flags(embed, line.common);
  add_trace_flag(embed, line.common);
  auto* text = embed->add_option("-t,--text", flags.texts, "a text (repeatable)");
  auto* tokens = embed->add_option("--tokens", flags.tokens, "token ids of a text, comma-separated")->excludes(text);
  embed->add_flag("--lines", flags.lines, "texts from stdin, one JSON string per line")
      ->excludes(text)
      ->excludes(tokens);
  embed->add_option("--pooling", flags.pooling, "last, mean or cls (default: as the model's files say, else last)");
  embed->add_flag("--no-normalise", flags.no_normalise, "leave the vectors as long as they are");
  embed->add_option("--dimensions", flags.dimensions, "keep only the first; 0: all")->capture_default_str();
}

void add_plan_verb(CLI::App& app, CommandLine& line) {
  PlanFlags& flags = line.plan;
  CLI::App* plan = add_verb(app, line, "plan", "memory and the longest context that fits, from headers alone",
                            [&] { return verb_plan(line.common, flags); });
  add_model(plan, line.common);
  add_compute_flags(plan, line.common);
  plan->add_option("--dtype", line.common.compute, "the same as --compute")->excludes("--compute");
  plan->add_option("--context", flags.context, "tokens of each sequence (default: the model's, or what fits)");
  plan->add_option("--batch", flags.batch, "sequences at a time")->capture_default_str();
  plan->add_option("--memory", flags.memory, "bytes of the device (default: what it has)");
  plan->add_flag("--headers-only", flags.headers_only, "weight files may end behind their headers");
  plan->add_option("--tensors", flags.tensors, "JSON file: names, shapes and types in place of weight files");
  plan->add_option("--cluster", flags.cluster, "file that describes several devices (not yet)");
  plan->add_flag("--measure", flags.measure, "measure the roof, and say what times it leaves");
}

void add_looking_verbs(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* inspect =
      add_verb(app, line, "inspect", "architecture, files, tensors, tokenizer, template, contract coverage",
               [&] { return verb_inspect(common); });
  add_model(inspect, common);
  add_spec_flags(inspect, common);

  CLI::App* graph =
      add_verb(app, line, "graph", "IR or plan at a named stage", [&] { return verb_graph(common, line.graph); });
  add_model(graph, common);
  add_compute_flags(graph, common);
  graph->add_option("--stage", line.graph.stage, "spec, fused, plan, or the name of a pass (after it)")
      ->capture_default_str();
  graph->add_option("--format", line.graph.format, "text, dot or json")->capture_default_str();

  CLI::App* tokenize = add_verb(app, line, "tokenize", "ids of a text, or text of ids",
                                [&] { return verb_tokenize(common, line.tokenize); });
  add_model(tokenize, common);
  auto* text = tokenize->add_option("-t,--text", line.tokenize.text, "the text (default: stdin)");
  auto* decode = tokenize->add_option("--decode", line.tokenize.decode, "these ids as text")->excludes(text);
  tokenize->add_flag("--lines", line.tokenize.lines, "one JSON string per line in, one JSON array per line out")
      ->excludes(text)
      ->excludes(decode);
  tokenize->add_flag("--no-special", line.tokenize.no_special, "add no BOS, EOS and the like");

  CLI::App* render =
      add_verb(app, line, "render", "the prompt of a chat", [&] { return verb_render(common, line.render); });
  render->add_option("MODEL", common.model, "whose template (may be left out with --template)");
  render->add_option("--messages", line.render.messages, "JSON file: a list of messages");
  render->add_option("--tools", line.render.tools, "JSON file: a list of tools");
  render->add_flag("--no-generation-prompt", line.render.no_generation_prompt);
  render->add_flag("--continue-final-message", line.render.continue_final_message,
                   "end with the words of the last message, an assistant's");
  render->add_option("--template", line.render.template_file, "a template file");
  render->add_option("--context", line.render.context, "JSON file: the variables the template sees");
  render->add_option("--spec", common.spec, "take the render function of this spec");
  render->add_option("--architectures", common.architectures, "read specs from this directory");
  add_chat_flag(render, common);
  add_chat_variables_flag(render, common);

  CLI::App* convert = add_verb(app, line, "convert", "GGUF to Hugging Face layout; weights to INT8, INT4, FP8, MXFP4",
                               [&] { return verb_convert(common, line.convert); });
  add_model(convert, common);
  add_spec_flags(convert, common);
  auto* to =
      convert->add_option("--to", line.convert.to, "of a GGUF: bf16, f16, f32; of a directory: int8, int4, fp8, mxfp4")
          ->capture_default_str();
  auto* keep =
      convert->add_option("--keep", line.convert.keep, "leave these modules alone: a name, glob or re: (repeatable)");
  auto* group =
      convert->add_option("--group", line.convert.group, "columns that share a scale of int8 and int4 (default: 128)");
  convert->add_option("--policy", line.convert.policy, "a file that says the format of each weight (TOML)")
      ->excludes(to)
      ->excludes(keep)
      ->excludes(group);
  convert->add_option("-o", line.convert.output, "directory to write")->required();
  convert->add_option("--shard-mib", line.convert.shard_mib, "start a new file at this size (0: one file)");

  CLI::App* twin = add_verb(app, line, "twin", "a tiny checkpoint that visits every branch of the model's spec",
                            [&] { return verb_twin(common, line.twin); });
  add_model(twin, common);
  add_spec_flags(twin, common);
  twin->add_option("-o", line.twin.output, "directory to write")->required();
  twin->add_option("--seed", line.twin.seed, "of the random weights")->capture_default_str();
  twin->add_option("--dtype", line.twin.dtype, "bf16, or the same values as f32")->capture_default_str();
  twin->add_flag("--from-weights", line.twin.from_weights, "slices of the model's own weights");

  CLI::App* ops = add_verb(app, line, "ops", "operator coverage on a backend", [&] { return verb_ops(common); });
  add_model(ops, common);
  add_compute_flags(ops, common);
  add_plan_verb(app, line);
  add_embed_verb(app, line);

  CLI::App* devices = add_verb(app, line, "devices", "what is there, measured on request",
                               [&] { return verb_devices(common, line.devices); });
  devices->add_flag("--measure", line.devices.measure, "read bandwidth and arithmetic peaks");
}

constexpr int64_t kMostGreedy = 1 << 20;

void add_piece_flags(CLI::App* sub, BaselineFlags& flags) {
  sub->add_option("--chunk", flags.chunk, "tokens of a prompt per run (default: as many as are useful)")
      ->check(whole_from(0));
  sub->add_flag("--batched", flags.batched, "all prompts in one batch");
  sub->add_option("--memory-limit", flags.memory_limit, "bytes of the whole process: out of core, layer by layer")
      ->check(whole_from(1));
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

void add_baseline_verbs(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  BaselineFlags& flags = line.baseline;
  CLI::App* baseline = app.add_subcommand("baseline", "golden packs: what a model computes, recorded and compared");
  baseline->require_subcommand(1);

  CLI::App* record = add_verb(*baseline, line, "record", "layers' outputs for given prompts, as a golden pack",
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

  CLI::App* compare = add_verb(*baseline, line, "compare", "two packs, or a pack and a model, value by value",
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
  compare->add_option("--html", flags.html, "write the report to this file");
  compare->add_flag("--all", flags.all, "print every value, not the layers and what is wrong");
  add_compute_flags(compare, common);
  add_run_flags(compare, flags);

  CLI::App* vote =
      add_verb(*baseline, line, "vote", "three packs or more: which of them is the outlier, layer by layer",
               [&] { return verb_baseline_vote(common, flags); });
  vote->add_option("PACK", flags.packs, "recordings of the same prompts; NAME=PACK gives one a name")->required();
  vote->add_option("--model", common.model, "record this model as one more voter");
  vote->add_option("--html", flags.html, "write the report to this file");
  vote->add_flag("--all", flags.all, "print every value, not the layers and what is not agreed");
  add_compute_flags(vote, common);
  add_run_flags(vote, flags);

  CLI::App* join = add_verb(*baseline, line, "join", "recordings of the ranks of a sharded run, put together",
                            [&] { return verb_baseline_join(common, flags); });
  join->add_option("PACK", flags.packs, "one recording per rank, all of them")->required();
  join->add_option("-o", flags.output, "directory to write")->required();

  CLI::App* locate = add_verb(*baseline, line, "locate", "the first wrong operator, the kind of fault, what to change",
                              [&] { return verb_baseline_locate(common, flags); });
  locate->add_option("PACK", flags.first, "the baseline (with --baseline: the model)")->required();
  auto* suspect = locate->add_option("--model", common.model, "the model that does not agree with it");
  locate->add_option("--baseline", flags.baseline, "the baseline, where the first word is the model")
      ->excludes(suspect);
  add_piece_flags(locate, flags);
  locate->add_flag("--exact", flags.exact, "the backend's own rounding counts as a fault");
  locate->add_option("-o", flags.output, "directory for a small reproduction of the first fault");
  add_compute_flags(locate, common);

  CLI::App* reproduce = add_verb(*baseline, line, "reproduce", "a fault from the folder that locate -o wrote",
                                 [&] { return verb_baseline_reproduce(common, flags); });
  prefer_reference(reproduce, common);
  reproduce->add_option("DIR", flags.first, "that folder")->required();
  reproduce->add_option("--model", common.model, "the model, where its tensors were too large to lie beside");
  reproduce->add_option("--chunk", flags.chunk, "tokens of a prompt per run")->check(whole_from(0));
  add_compute_flags(reproduce, common);

  CLI::App* values = add_verb(*baseline, line, "values", "what a recording has: names, operators, layers, widths",
                              [&] { return verb_baseline_values(common, flags); });
  add_model(values, common);
  add_spec_flags(values, common);
}

// Common flags are checked for every verb, also where it has no use for them.
Result<int> run_verb(const CommandLine& line) {
  FL_TRY(bring_up_options(line.common));
  try {
    return line.chosen();
  } catch (const std::bad_alloc&) {
    return out_of_memory("the system gave no more memory");
  } catch (const std::exception& error) {
    return internal_error(std::string("an exception nobody caught: ") + error.what());
  }
}

template <typename Integer>
bool is_whole(const std::string& word) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

// The library bends what does not fit (beyond 64 bits to the largest, -1 to 2^64 - 1): such words are refused first.
void refuse_bent_numbers(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    refuse_bent_numbers(*sub);
    for (CLI::Option* option : sub->get_options()) {
      const std::string type = option->get_type_name();
      const bool natural = type.starts_with("UINT");
      if (!natural && !type.starts_with("INT")) continue;
      option->check([natural](const std::string& word) {
        if (natural ? is_whole<uint64_t>(word) : is_whole<int64_t>(word)) return std::string();
        return "'" + word + "' is no whole number" + (natural ? " from 0 up" : "") + " of 64 bits";
      });
    }
  }
}

void print_error(const Status& status) {
  const Json document = {{"error", {{"code", status_code_name(status.code())}, {"message", status.message()}}}};
  std::printf("%s\n", dump_json(document).c_str());
}

bool wants_json(int argc, char** argv) {
  return std::find(argv + 1, argv + argc, std::string_view("--json")) != argv + argc;
}

// A line that does not parse has told no flag yet, --json included.
int fail_to_parse(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (app.exit(error) == 0) return 0;
  if (wants_json(argc, argv)) print_error(invalid_argument(error.what()));
  return 2;
}

int fail(const Status& status, bool json) {
  std::fprintf(stderr, "firstlight: %s\n", printable(status.to_string()).c_str());
  if (json) print_error(status);
  return exit_status(status.code());
}

// The parser would only say that a verb is missing, whatever stands in its place.
Status check_verb(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto verbs = at->get_subcommands([](const CLI::App*) { return true; });
    if (verbs.empty()) break;
    const auto found =
        std::find_if(verbs.begin(), verbs.end(), [&](const auto* verb) { return verb->get_name() == argv[i]; });
    if (found == verbs.end()) {
      const std::string of = at == &app ? "" : " of " + at->get_name();
      return invalid_argument("no verb" + of + " is called '" + std::string(argv[i]) + "'; --help lists them");
    }
    at = *found;
  }
  return ok_status();
}

// `--name=` is a name and an empty value; the parser would take the word behind it, which may be --json.
std::vector<const char*> with_empty_values(int argc, char** argv, std::deque<std::string>& names) {
  std::vector<const char*> words;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    words.push_back(argv[i]);
    if (i == 0 || !word.starts_with("--") || word.size() < 4 || word.find('=') != word.size() - 1) continue;
    names.emplace_back(word.substr(0, word.size() - 1));
    words.back() = names.back().c_str();
    words.push_back("");
  }
  return words;
}

// Work that did not reach its reader is not done.
int finish(int status) {
  const Status arrived = flush_output();
  return arrived.ok() ? status : fail(arrived, false);
}

}  // namespace

int main(int argc, char** argv) {
  reserve_streams();
  std::deque<std::string> names;
  const std::vector<const char*> words = with_empty_values(argc, argv, names);
  std::signal(SIGPIPE, SIG_IGN);
  CommandLine line;
  CLI::App app("Firstlight: a newly released open-weight model, usable on the day of its release.");
  app.require_subcommand(1);
  app.set_version_flag("--version", FL_VERSION);
  add_running_verbs(app, line);
  add_looking_verbs(app, line);
  add_baseline_verbs(app, line);
  refuse_bent_numbers(app);
  if (const Status known = check_verb(app, argc, argv); !known.ok()) return fail(known, wants_json(argc, argv));
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    return finish(fail_to_parse(app, error, argc, argv));
  }
  const auto outcome = run_verb(line);
  return finish(outcome.ok() ? *outcome : fail(outcome.status(), line.common.json));
}
