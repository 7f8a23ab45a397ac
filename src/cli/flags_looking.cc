// SPDX-License-Identifier: Apache-2.0
// The verbs that look at a model, its text or the machine, and those that write one: their flags.
#include <CLI/CLI.hpp>

#include "cli/common_flags.h"

namespace firstlight::cli {
namespace {

void add_inspect(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* inspect =
      add_verb(app, line, "inspect", "architecture, files, tensors, tokenizer, template, contract coverage",
               [&] { return verb_inspect(common); });
  add_model(inspect, common);
  add_spec_flags(inspect, common);
}

void add_graph(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* graph =
      add_verb(app, line, "graph", "IR or plan at a named stage", [&] { return verb_graph(common, line.graph); });
  add_model(graph, common);
  add_compute_flags(graph, common);
  graph->add_option("--stage", line.graph.stage, "spec, fused, plan, or the name of a pass (after it)")
      ->capture_default_str();
  graph->add_option("--format", line.graph.format, "text, dot or json")->capture_default_str();
}

void add_tokenize(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* tokenize = add_verb(app, line, "tokenize", "ids of a text, or text of ids",
                                [&] { return verb_tokenize(common, line.tokenize); });
  add_model(tokenize, common);
  auto* text = tokenize->add_option("-t,--text", line.tokenize.text, "the text (default: stdin)");
  auto* decode = tokenize->add_option("--decode", line.tokenize.decode, "these ids as text")->excludes(text);
  tokenize->add_flag("--lines", line.tokenize.lines, "one JSON string per line in, one JSON array per line out")
      ->excludes(text)
      ->excludes(decode);
  tokenize->add_flag("--no-special", line.tokenize.no_special, "add no BOS, EOS and the like");
}

void add_render(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
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
}

void add_convert(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
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
}

void add_twin(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* twin = add_verb(app, line, "twin", "a tiny checkpoint that visits every branch of the model's spec",
                            [&] { return verb_twin(common, line.twin); });
  add_model(twin, common);
  add_spec_flags(twin, common);
  twin->add_option("-o", line.twin.output, "directory to write")->required();
  twin->add_option("--seed", line.twin.seed, "of the random weights")->capture_default_str();
  twin->add_option("--dtype", line.twin.dtype, "bf16, or the same values as f32")->capture_default_str();
  twin->add_flag("--from-weights", line.twin.from_weights, "slices of the model's own weights");
}

void add_ops(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* ops = add_verb(app, line, "ops", "operator coverage on a backend", [&] { return verb_ops(common); });
  add_model(ops, common);
  add_compute_flags(ops, common);
}

void add_plan(CLI::App& app, CommandLine& line) {
  PlanFlags& flags = line.plan;
  CLI::App* plan = add_verb(app, line, "plan", "memory and the longest context that fits, from headers alone",
                            [&] { return verb_plan(line.common, flags); });
  add_model(plan, line.common);
  add_compute_flags(plan, line.common);
  plan->add_option("--dtype", line.common.compute, "the same as --compute")->excludes("--compute");
  plan->add_option("--context", flags.context, "tokens of each sequence (default: the model's, or what fits)")
      ->check(whole_from(1));
  plan->add_option("--batch", flags.batch, "sequences at a time")->capture_default_str();
  add_bytes_flag(plan, "--memory", flags.memory, "bytes of the device (default: what it has)", 1);
  plan->add_flag("--headers-only", flags.headers_only, "weight files may end behind their headers");
  plan->add_option("--tensors", flags.tensors, "JSON file: names, shapes and types in place of weight files");
  plan->add_option("--cluster", flags.cluster, "file that describes several devices (not yet)");
  plan->add_flag("--measure", flags.measure, "measure the roof, and say what times it leaves");
}

void add_embed(CLI::App& app, CommandLine& line) {
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
  embed->add_option("--pooling", flags.pooling,
                    "last, mean, first or cls (default: as the model's files say, else last)");
  embed->add_flag("--no-normalise", flags.no_normalise, "leave the vectors as long as they are");
  embed->add_option("--dimensions", flags.dimensions, "keep only the first; 0: all")->capture_default_str();
}

void add_devices(CLI::App& app, CommandLine& line) {
  CommonFlags& common = line.common;
  CLI::App* devices = add_verb(app, line, "devices", "what is there, measured on request",
                               [&] { return verb_devices(common, line.devices); });
  devices->add_flag("--measure", line.devices.measure, "read bandwidth and arithmetic peaks");
}

}  // namespace

void add_looking_verbs(CLI::App& app, CommandLine& line) {
  for (const auto add : {add_inspect, add_graph, add_tokenize, add_render, add_convert, add_twin, add_ops, add_plan,
                         add_embed, add_devices}) {
    add(app, line);
  }
}

}  // namespace firstlight::cli
