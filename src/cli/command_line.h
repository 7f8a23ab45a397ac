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

// flags_running.cc: adapt, validate, run, logits, perplexity, bench
void add_running_verbs(CLI::App& app, CommandLine& line);
// flags_serve.cc
void add_serve_verb(CLI::App& app, CommandLine& line);
// flags_looking.cc: inspect, graph, tokenize, render, convert, twin, ops, plan, embed, devices
void add_looking_verbs(CLI::App& app, CommandLine& line);
// flags_baseline.cc
void add_baseline_verbs(CLI::App& app, CommandLine& line);

}  // namespace firstlight::cli
