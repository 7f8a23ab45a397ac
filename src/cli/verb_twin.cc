// SPDX-License-Identifier: Apache-2.0
// twin: a tiny checkpoint of a model's architecture, and the proof that it has every part of the original's graph.
#include <algorithm>
#include <cstdio>

#include "adapt/twin.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace firstlight::cli {
namespace {

int64_t count_of(const intake::Features& features, std::string_view word) {
  return std::count_if(features.all.begin(), features.all.end(),
                       [&](const auto& one) { return one.starts_with(word); });
}

void print_lines(const char* title, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%-9s %s\n", title, line.c_str());
}

void print_twin(const adapt::Twin& twin) {
  const intake::Shrunk& shrunk = twin.shrunk;
  for (const intake::LayerKind& kind : shrunk.features.kinds) {
    std::printf("%-9s %zu x %s\n", "layers", kind.scopes.size(), kind.description.c_str());
  }
  print_lines("routing", twin.routers);
  print_lines("window", twin.windows);
  print_lines("state", twin.states);
  for (const intake::Change& change : shrunk.changes) {
    std::printf("%-9s %s: %s for %s\n", "config", change.path.c_str(), change.to.c_str(), change.from.c_str());
  }
  print_lines("note", twin.notes);
  const int64_t jumps = count_of(shrunk.original, "jump ");
  std::printf("spec      %lld steps from line to line, all of the original's %lld\n",
              static_cast<long long>(count_of(shrunk.features, "jump ")), static_cast<long long>(jumps));
  std::printf("features  all %zu of the original: layer kinds, tensors, states, sizes that differ\n",
              shrunk.original.all.size());
  std::printf("%lld layers for %lld, %lld tensors, %lld weights; a prompt of %lld tokens passes every window\n",
              static_cast<long long>(shrunk.features.num_layers), static_cast<long long>(shrunk.original.num_layers),
              static_cast<long long>(twin.num_tensors), static_cast<long long>(twin.num_weights),
              static_cast<long long>(twin.prompt));
  for (const std::string& file : twin.files) std::printf("%s\n", file.c_str());
}

Json json_of(const adapt::Twin& twin) {
  const intake::Shrunk& shrunk = twin.shrunk;
  Json kinds = Json::array(), changes = Json::object();
  for (const intake::LayerKind& kind : shrunk.features.kinds) {
    kinds.push_back({{"layers", kind.scopes}, {"operators", kind.description}});
  }
  for (const intake::Change& change : shrunk.changes) changes[change.path] = {{"from", change.from}, {"to", change.to}};
  return {{"visited",
           {{"layer_kinds", std::move(kinds)},
            {"routers", twin.routers},
            {"windows", twin.windows},
            {"states", twin.states}}},
          {"config", changes},
          {"layers_from", shrunk.layers},
          {"jumps", count_of(shrunk.features, "jump ")},
          {"jumps_of_original", count_of(shrunk.original, "jump ")},
          {"features", shrunk.features.all.size()},
          {"features_of_original", shrunk.original.all.size()},
          {"layers", shrunk.features.num_layers},
          {"layers_of_original", shrunk.original.num_layers},
          {"tensors", twin.num_tensors},
          {"weights", twin.num_weights},
          {"prompt", twin.prompt},
          {"notes", twin.notes},
          {"files", twin.files}};
}

}  // namespace

Result<int> verb_twin(const CommonFlags& common, const TwinFlags& flags) {
  adapt::TwinOptions options{.seed = flags.seed, .from_weights = flags.from_weights};
  if (flags.dtype != "bf16" && flags.dtype != "f32")
    return invalid_argument("--dtype " + flags.dtype + ": bf16 or f32 wanted");
  if (flags.dtype == "f32") options.dtype = tensor::DType::kF32;
  options.intake = FL_TRY(bring_up_options(common)).intake;
  const RemoveOnInterrupt guard(flags.output);
  const adapt::Twin twin = FL_TRY(adapt::make_twin(common.model, flags.output, options));
  if (common.json) {
    print_json(json_of(twin));
  } else {
    print_twin(twin);
  }
  return 0;
}

}  // namespace firstlight::cli
