// SPDX-License-Identifier: Apache-2.0
// What a command line says: every verb's flags, and the verb that was chosen. The flags are told to the parser in
// flags_*.cc, by groups of verbs; --help lists the verbs in the order in which they are added.
#pragma once

#include <functional>

#include "cli/verbs.h"

namespace CLI {
class App;
}

namespace firstlight::cli {

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

// flags_running.cc: adapt, validate, run, logits, perplexity, bench
void add_running_verbs(CLI::App& app, CommandLine& line);
// flags_serve.cc
void add_serve_verb(CLI::App& app, CommandLine& line);
// flags_looking.cc: inspect, graph, tokenize, render, convert, twin, ops, plan, embed, devices
void add_looking_verbs(CLI::App& app, CommandLine& line);
// flags_baseline.cc
void add_baseline_verbs(CLI::App& app, CommandLine& line);

}  // namespace firstlight::cli
