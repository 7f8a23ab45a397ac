// SPDX-License-Identifier: Apache-2.0
// Units of tiny models measured by runs: against the whole road through a converted checkpoint, with planted outliers
// that must be found and kept, and budgets that the measured whole must meet.
#include "gates/sensitivity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "adapt/quantise.h"
#include "adapt/test/golden_model.h"
#include "engine/scorer.h"
#include "formats/safetensors.h"
#include "gates/calibration.h"
#include "gates/policy_search.h"
#include "tensor/codec.h"

namespace firstlight::gates {
namespace {

namespace fs = std::filesystem;
using adapt::QuantChoice;

const std::string kPlanted = "model.layers.1.mlp.down_proj";

std::vector<QuantChoice> choices(std::initializer_list<const char*> names) {
  std::vector<QuantChoice> found;
  for (const char* name : names) found.push_back(QuantChoice::parse(name).value());
  return found;
}

// The golden model in F32; `plant`: two channels of an MLP 256 times larger behind up_proj and as much smaller in it,
// which changes nothing in exact arithmetic.
void write_model(const std::string& folder, bool plant) {
  const std::string from = adapt::golden_path("llama");
  const auto checkpoint = formats::Checkpoint::open(from);
  fs::create_directories(folder);
  fs::copy_file(from + "/config.json", folder + "/config.json");
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
  Sensitivity measure(const SensitivityOptions& options) {
    auto found = measure_sensitivity(planner, *runner, options);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return found.ok() ? std::move(*found) : Sensitivity{};
  }

  adapt::QuantSource source;
  adapt::QuantPlanner planner;
  std::vector<int32_t> tokens;
  std::unique_ptr<VariantRunner> runner;
};

std::vector<std::vector<double>> log_probabilities(const std::string& model, const std::vector<int32_t>& tokens) {
  auto loaded = adapt::bring_up(model, adapt::quick_options());
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
Effect effect_of(const std::vector<std::vector<double>>& wanted, const std::vector<std::vector<double>>& found,
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

TEST(Sensitivity, AUnitsEffectIsThatOfTheConvertedCheckpoint) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = bench.measure({.choices = choices({"int4:32", "mxfp4", "int8:32", "fp8"}), .max_runs = 1000});
  EXPECT_EQ(found.granularity, Granularity::kModule);
  EXPECT_EQ(found.units.size(), 2u * 7);
  EXPECT_EQ(found.formats_run, 4);
  const auto exact = log_probabilities(folder / "model", bench.tokens);
  int compared = 0;
  for (const Unit& unit : found.units) {
    if (unit.name != "model.layers.0.self_attn.v_proj" && unit.name != "model.layers.1.mlp.gate_proj") continue;
    for (const UnitFormat& format : unit.formats) {
      ASSERT_TRUE(format.measured) << format.obstacle;
      const std::string path = folder / ("c" + std::to_string(compared++));
      const adapt::QuantPolicy policy = {{{.modules = unit.name, .choice = format.choice, .said = "test"}}};
      ASSERT_TRUE(adapt::quantise(folder / "model", path, {.policy = policy}).ok());
      const Effect wanted = effect_of(exact, log_probabilities(path, bench.tokens), bench.tokens);
      EXPECT_NEAR(format.effect.kl, wanted.kl, 1e-6 + 1e-3 * wanted.kl) << unit.name << format.choice.name();
      EXPECT_DOUBLE_EQ(format.effect.top1, wanted.top1);
      EXPECT_NEAR(format.effect.perplexity, wanted.perplexity, 1e-5 * wanted.perplexity);
      EXPECT_EQ(format.kl, format.effect.kl);
    }
  }
  EXPECT_EQ(compared, 8);
  ASSERT_EQ(found.computed.size(), 2u);
  EXPECT_EQ(found.computed[1].second.bytes, bench.runner->run(adapt::uniform_policy({}, {}))->bytes);
  ASSERT_EQ(found.wholes.size(), 4u);
  EXPECT_GT(found.wholes[0].variant.effect.kl, found.wholes[2].variant.effect.kl) << "int4 against int8";
}

TEST(Sensitivity, PlantedOutliersComeFirstAndStay) {
  const adapt::TestFolder folder;
  write_model(folder / "model", true);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = bench.measure({.choices = choices({"int4:32", "int8:32"}), .max_runs = 1000});
  ASSERT_FALSE(found.units.empty());
  EXPECT_EQ(found.units[0].name, kPlanted);
  EXPECT_GT(found.units[0].formats[0].kl, 3 * found.units[1].formats[0].kl);

  // A budget that all others together fit into, and it does not.
  double others = 0;
  for (size_t u = 1; u < found.units.size(); ++u) others += found.units[u].formats[0].kl;
  const double budget = std::min(others, 0.8 * found.units[0].formats[0].kl);
  const auto proposal = search_policy(found.units, *bench.runner, {.max_kl = budget});
  ASSERT_TRUE(proposal.ok()) << proposal.status().to_string();
  EXPECT_TRUE(proposal->within_budget);
  EXPECT_LE(proposal->variant.effect.kl, budget);
  EXPECT_LT(proposal->variant.bytes, bench.runner->untouched().bytes);
  EXPECT_NE(proposal->chosen[0], 0) << "the planted weights may not be int4";
  EXPECT_GT(std::count(proposal->chosen.begin(), proposal->chosen.end(), 0), 3) << "most of the others may";

  // What is written says the same, and the checkpoint has the measured effect.
  const auto policy = adapt::parse_policy(adapt::policy_text(proposal->policy, {"a policy"}), "p.toml");
  ASSERT_TRUE(policy.ok()) << policy.status().to_string();
  ASSERT_TRUE(adapt::quantise(folder / "model", folder / "mixed", {.policy = *policy}).ok());
  const Effect whole = effect_of(log_probabilities(folder / "model", bench.tokens),
                                 log_probabilities(folder / "mixed", bench.tokens), bench.tokens);
  EXPECT_NEAR(whole.kl, proposal->variant.effect.kl, 1e-6 + 1e-3 * whole.kl);
  EXPECT_EQ(static_cast<int64_t>(formats::Checkpoint::open(folder / "mixed")->total_bytes()), proposal->variant.bytes);

  // At the bytes of int4 throughout plus those that the planted weights need in int8.
  const int64_t bytes =
      found.wholes[0].variant.bytes + found.units[0].formats[1].bytes - found.units[0].formats[0].bytes;
  const auto small = search_policy(found.units, *bench.runner, {.target_bytes = bytes});
  ASSERT_TRUE(small.ok()) << small.status().to_string();
  EXPECT_LE(small->variant.bytes, bytes);
  EXPECT_LT(small->variant.effect.kl, 0.5 * found.wholes[0].variant.effect.kl);
}

TEST(Sensitivity, BudgetsOfPerplexityAreMetByTheWhole) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = bench.measure({.choices = choices({"int4:32", "int8:32"}), .max_runs = 1000});
  for (const double increase : {0.002, 0.02}) {
    int rounds = 0;
    const auto proposal = search_policy(found.units, *bench.runner, {.max_perplexity_increase = increase},
                                        [&](const PolicyProposal&) { ++rounds; });
    ASSERT_TRUE(proposal.ok()) << proposal.status().to_string();
    EXPECT_TRUE(proposal->within_budget);
    EXPECT_LE(proposal->variant.effect.perplexity, (1 + increase) * bench.runner->untouched().effect.perplexity);
    EXPECT_EQ(rounds, proposal->rounds);
  }
  EXPECT_FALSE(search_policy(found.units, *bench.runner, {}).ok());
  EXPECT_FALSE(search_policy(found.units, *bench.runner, {.max_kl = 1.0, .target_bytes = 1}).ok());
  EXPECT_FALSE(search_policy(found.units, *bench.runner, {.max_kl = 1e-12}).ok()) << "no weight fits";
}

TEST(Sensitivity, FewRunsMeasureTheRoughestAndEstimateTheRest) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto few = bench.measure({.choices = choices({"int4:32", "int8:32", "fp8"}), .max_runs = 14});
  EXPECT_EQ(few.granularity, Granularity::kModule);
  EXPECT_EQ(few.formats_run, 1);
  const auto all = bench.measure({.choices = choices({"int4:32", "int8:32", "fp8"}), .max_runs = 1000});
  for (const Unit& unit : few.units) {
    const auto same =
        std::find_if(all.units.begin(), all.units.end(), [&](const Unit& u) { return u.name == unit.name; });
    ASSERT_NE(same, all.units.end());
    EXPECT_TRUE(unit.formats[0].measured);
    EXPECT_EQ(unit.formats[0].kl, same->formats[0].kl);
    for (const size_t i : {1, 2}) {
      EXPECT_FALSE(unit.formats[i].measured);
      EXPECT_GT(unit.formats[i].kl, 0);
      // Of the same order as a run's.
      EXPECT_LT(std::abs(std::log10(unit.formats[i].kl / same->formats[i].kl)), 1.2) << unit.name << i;
    }
  }
  EXPECT_EQ(bench.measure({.choices = choices({"int8"}), .max_runs = 5}).units.size(), 4u) << "blocks";
  EXPECT_EQ(bench.measure({.choices = choices({"int8"}), .max_runs = 2}).units.size(), 2u) << "layers";
}

TEST(Sensitivity, ExpertsOfOneKindAreOneUnitAndW8a8HasItsOwnRun) {
  Bench bench(adapt::golden_path("qwen3_moe"), "qwen3_moe", catalog::Backend::kCpu);
  ASSERT_NE(bench.runner, nullptr);
  const auto units = list_units(bench.planner, choices({"int4", "mxfp4"}), Granularity::kModule);
  ASSERT_TRUE(units.ok());
  const auto experts =
      std::find_if(units->begin(), units->end(), [](const Unit& u) { return u.kind == "mlp.experts.*.up_proj"; });
  ASSERT_NE(experts, units->end());
  EXPECT_EQ(experts->name, experts->layer + ".mlp.experts.*.up_proj");
  EXPECT_GT(experts->tensors.size(), 3u);
  for (const Unit& unit : *units) EXPECT_EQ(unit.kind.find("gate.weight"), std::string::npos) << "routers stay";
  const auto found = bench.measure({.choices = choices({"int8"}), .max_runs = 8, .activations = true});
  EXPECT_NE(found.granularity, Granularity::kModule);
  for (const Unit& unit : found.units) {
    ASSERT_TRUE(unit.w8a8_kl.has_value());
    EXPECT_GT(*unit.w8a8_kl, 0.3 * unit.formats[0].kl) << unit.name;
    EXPECT_NE(*unit.w8a8_kl, unit.formats[0].kl) << unit.name << ": activations were not rounded";
  }
}

TEST(Calibration, IsCutAndBeginsAsTheTokenizerSays) {
  const adapt::TestFolder folder;
  folder.copy_golden();
  adapt::TextAssets none;
  const auto ids = calibration_tokens(none, std::nullopt, "", 64, 40);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->tokens.size(), 40u);
  EXPECT_GT(std::set<int32_t>(ids->tokens.begin(), ids->tokens.end()).size(), 20u);
  EXPECT_FALSE(calibration_tokens(none, "some text", "FILE", 64, 40).ok()) << "a text needs a tokenizer";
  adapt::write_text(folder / "tokenizer.json", adapt::character_tokenizer());
  const auto assets = adapt::load_text_assets(folder.path(), nullptr);
  const auto own = calibration_tokens(assets, "abcabc", "FILE", 64, 4);
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  EXPECT_EQ(own->tokens.size(), 4u);
  EXPECT_EQ(own->origin, "FILE");
  EXPECT_GT(calibration_tokens(assets, std::nullopt, "", 64, 5000)->tokens.size(), 1500u);
  EXPECT_FALSE(calibration_tokens(assets, "a", "FILE", 64, 4).ok());
}

}  // namespace
}  // namespace firstlight::gates
