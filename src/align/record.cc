// SPDX-License-Identifier: Apache-2.0
#include "align/record.h"

#include <algorithm>
#include <cstdio>

#include "align/identity.h"
#include "align/pack_builder.h"
#include "ir/text.h"

namespace firstlight::align {
namespace {

// Of the graph, and those inside experts before what the experts make together.
std::vector<Tap> wanted_taps(const ir::Graph& graph, bool operators, const ExpertValues* experts) {
  std::vector<Tap> taps;
  for (Tap& tap : find_taps(graph, operators)) {
    for (size_t i = 0; experts != nullptr && i < experts->taps.size(); ++i) {
      if (experts->behind[i] == tap.value) taps.push_back(experts->taps[i]);
    }
    taps.push_back(std::move(tap));
  }
  return taps;
}

std::vector<TapInfo> tap_infos(const std::vector<Tap>& taps) {
  std::vector<TapInfo> infos;
  for (const Tap& tap : taps) {
    infos.push_back({.name = tap.name,
                     .layer = tap.layer,
                     .op = tap.op,
                     .is_integer = tap.type.dtype == tensor::DType::kI32,
                     .is_layer_output = tap.is_layer_output,
                     .is_module_output = tap.is_module_output,
                     .width = tap.width(),
                     .rate = tap.rate()});
  }
  return infos;
}

Status identify(const ir::Graph& graph, const Resources& resources, Pack& head) {
  if (head.weights_hash.empty()) head.weights_hash = FL_TRY(weights_hash(*resources.checkpoint));
  if (head.parameters == 0) head.parameters = count_parameters(*resources.checkpoint);
  if (head.spec_hash.empty()) head.spec_hash = hex64(ir::fingerprint(graph));
  return ok_status();
}

// The likeliest token behind each prompt, of its last row of logits.
Result<std::vector<int32_t>> next_tokens(const ir::Graph& graph, const std::vector<Tap>& logits, const Prompts& prompts,
                                         const RunOptions& options, const Resources& resources) {
  std::vector<int32_t> best(prompts.size(), 0);
  FL_TRY(run_taps(graph, logits, prompts, options, resources,
                  [&](size_t, size_t prompt, int64_t first_row, const tensor::View& rows) {
                    if (first_row + rows.dim(0) != static_cast<int64_t>(prompts[prompt].size())) return;
                    const int64_t width = rows.dim(-1);
                    const float* row = rows.as<float>() + (rows.dim(0) - 1) * width;
                    best[prompt] = static_cast<int32_t>(std::max_element(row, row + width) - row);
                  }));
  return best;
}

Status add_greedy(const ir::Graph& graph, const std::vector<Tap>& taps, const RecordOptions& options,
                  const Resources& resources, Pack& pack) {
  std::vector<Tap> logits;
  for (const Tap& tap : taps) {
    if (tap.name == "logits") logits.push_back(tap);
  }
  if (logits.empty() || options.greedy < 1) return ok_status();
  Prompts prompts;
  for (PromptRecord& prompt : pack.prompts) {
    prompt.greedy = {prompt.top_ids[prompt.top_ids.size() - static_cast<size_t>(kTopLogits)]};
    prompts.push_back(prompt.tokens);
  }
  for (int64_t i = 1; i < options.greedy; ++i) {
    for (size_t p = 0; p < prompts.size(); ++p) prompts[p].push_back(pack.prompts[p].greedy.back());
    const auto next = FL_TRY(next_tokens(graph, logits, prompts, options.run, resources));
    for (size_t p = 0; p < prompts.size(); ++p) pack.prompts[p].greedy.push_back(next[p]);
  }
  return ok_status();
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

Result<Recording> fill(const ir::Graph& spec, const std::vector<Tap>& taps, const Prompts& prompts, PackBuilder builder,
                       const RecordOptions& options, const Resources& resources) {
  const ir::Graph& graph = options.run_instead != nullptr ? *options.run_instead
                           : options.experts != nullptr   ? options.experts->graph
                                                          : spec;
  Recording recording;
  recording.limit = size_limit(builder.pack().parameters) + builder.full_bytes();
  recording.facts = FL_TRY(run_taps(graph, taps, prompts, options.run, resources,
                                    [&](size_t tap, size_t prompt, int64_t first_row, const tensor::View& rows) {
                                      builder.add(tap, prompt, first_row, rows);
                                    }));
  recording.pack = std::move(builder).finish();
  recording.pack.origin["rounding"] = number_text(recording.facts.rounding.step);
  recording.pack.origin["products_per_layer"] = number_text(recording.facts.rounding.products_per_layer);
  FL_TRY(add_greedy(graph, taps, options, resources, recording.pack));
  return recording;
}

}  // namespace

Result<Recording> record(const ir::Graph& graph, const Prompts& prompts, Pack head, const RecordOptions& options,
                         const Resources& resources) {
  const auto taps = wanted_taps(graph, options.operators || !options.full.empty(), options.experts);
  FL_TRY(identify(graph, resources, head));
  head.taps = tap_infos(taps);
  for (const auto& tokens : prompts) {
    auto& prompt = head.prompts.emplace_back();
    prompt.tokens = tokens;
  }
  const int64_t limit = size_limit(head.parameters);
  auto builder = FL_TRY(PackBuilder::create(std::move(head), options.full, limit));
  return fill(graph, taps, prompts, std::move(builder), options, resources);
}

Result<Recording> record_like(const ir::Graph& graph, const Pack& baseline, Pack head, const RecordOptions& options,
                              const Resources& resources) {
  const auto taps = wanted_taps(graph, options.operators, options.experts);
  FL_TRY(identify(graph, resources, head));
  head.taps = tap_infos(taps);
  Prompts prompts;
  for (const PromptRecord& from : baseline.prompts) {
    auto& prompt = head.prompts.emplace_back();
    prompt.tokens = from.tokens;
    prompts.push_back(from.tokens);
  }
  return fill(graph, taps, prompts, PackBuilder::like(std::move(head), baseline), options, resources);
}

}  // namespace firstlight::align
