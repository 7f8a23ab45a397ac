// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints whose weights are rounded, and how their predictions differ by the definitions: for the tests of
// sensitivity, policies and variants. Include <gtest/gtest.h> first.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "adapt/quantise.h"
#include "adapt/test/golden_model.h"
#include "engine/scorer.h"
#include "formats/safetensors.h"
#include "gates/variant_runner.h"
#include "tensor/codec.h"

namespace firstlight::gates {

inline const std::string kPlanted = "model.layers.1.mlp.down_proj";

inline std::vector<adapt::QuantChoice> choices(std::initializer_list<const char*> names) {
  std::vector<adapt::QuantChoice> found;
  for (const char* name : names) found.push_back(adapt::QuantChoice::parse(name).value());
  return found;
}

// The golden model in F32; `plant`: two channels of an MLP 256 times larger behind up_proj and as much smaller in it,
// which changes nothing in exact arithmetic.
inline void write_model(const std::string& folder, bool plant) {
  const std::string from = adapt::golden_path("llama");
  const auto checkpoint = formats::Checkpoint::open(from);
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(from + "/config.json", folder + "/config.json");
  std::vector<formats::TensorPlan> plans;
  for (const auto& [name, record] : checkpoint->tensors()) plans.push_back({name, tensor::DType::kF32, record.shape});
  auto writer = formats::SafetensorsWriter::create(folder, plans);
  for (const auto& [name, record] : checkpoint->tensors()) {
    std::vector<float> values(static_cast<size_t>(record.num_elements()));
    ASSERT_TRUE(tensor::decode_to_f32(*record.dtype, *checkpoint->bytes(record), values).ok());
    for (size_t i = 0; plant && i < values.size(); ++i) {
      const auto columns = static_cast<size_t>(record.shape.back());
      const size_t row = i / columns, column = i % columns;
      if (name == kPlanted + ".weight" && (column == 3 || column == 17)) values[i] *= 256;
      if (name == "model.layers.1.mlp.up_proj.weight" && (row == 3 || row == 17)) values[i] /= 256;
    }
    ASSERT_TRUE(writer->append(name, std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
}

struct Bench {
  explicit Bench(const std::string& path, const std::string& golden = "llama",
                 catalog::Backend backend = catalog::Backend::kReference)
      : source(adapt::open_quant_source(path, {.probe_config = false}).value()), planner(source) {
    VariantOptions options{.bring_up = adapt::quick_options(backend), .tokens = adapt::golden_ids("prompt", golden)};
    options.bring_up.intake.probe_config = false;
    options.bring_up.compute = catalog::ComputeMode::kF32;
    tokens = options.tokens;
    auto made = VariantRunner::create(planner, std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) runner = std::move(*made);
  }

  adapt::QuantSource source;
  adapt::QuantPlanner planner;
  std::vector<int32_t> tokens;
  std::unique_ptr<VariantRunner> runner;
};

inline std::vector<std::vector<double>> log_probabilities(const std::string& model,
                                                          const std::vector<int32_t>& tokens) {
  adapt::BringUpOptions options = adapt::quick_options();
  options.intake.probe_config = false;
  auto loaded = adapt::bring_up(model, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  std::vector<std::vector<double>> rows;
  if (!loaded.ok()) return rows;
  EXPECT_TRUE(engine::score(*(*loaded)->executor, tokens, {}, [&](int64_t, std::span<const float> logits) {
                double sum = 0;
                for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
                auto& row = rows.emplace_back();
                for (const float logit : logits) row.push_back(static_cast<double>(logit) - std::log(sum));
              }).ok());
  return rows;
}

// By the definitions, on whole checkpoints.
inline Effect effect_of(const std::vector<std::vector<double>>& wanted, const std::vector<std::vector<double>>& found,
                        const std::vector<int32_t>& tokens) {
  Effect effect{.kl = 0, .top1 = 0, .perplexity = 0};
  double nll = 0;
  for (size_t r = 0; r < wanted.size(); ++r) {
    for (size_t i = 0; i < wanted[r].size(); ++i) effect.kl += std::exp(wanted[r][i]) * (wanted[r][i] - found[r][i]);
    const auto best = [](const auto& row) { return std::max_element(row.begin(), row.end()) - row.begin(); };
    effect.top1 += best(wanted[r]) == best(found[r]) ? 1 : 0;
    if (r + 1 < tokens.size()) nll -= found[r][static_cast<size_t>(tokens[r + 1])];
  }
  const auto rows = static_cast<double>(wanted.size());
  return {effect.kl / rows, effect.top1 / rows, std::exp(nll / (rows - 1))};
}

}  // namespace firstlight::gates
