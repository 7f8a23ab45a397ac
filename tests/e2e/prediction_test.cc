// SPDX-License-Identifier: Apache-2.0
// Heads that predict further tokens: their logits against an independent computation (tools/golden/prediction.py), what
// a load with them uses of a checkpoint, and what the engine makes of their guesses: always right where the model is
// made so that they must be, next to none where they never are. No text depends on them: here with each family, under
// pressure in engine_pressure_test.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "adapt/test/golden_model.h"
#include "engine/engine.h"
#include "kv/state_cache.h"

namespace firstlight {
namespace {

using Ids = std::vector<int32_t>;
const char* const kLatent = "deepseek_v3_no_q_lora";

std::unique_ptr<adapt::LoadedModel> load(const std::string& path, catalog::Backend backend) {
  adapt::BringUpOptions options = adapt::quick_options(backend);
  options.predict = true;
  if (backend == catalog::Backend::kCpu) options.compute = catalog::ComputeMode::kF32;
  if (backend == catalog::Backend::kCpu) options.state_dtype = tensor::DType::kF32;
  auto loaded = adapt::bring_up(path, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? std::move(*loaded) : nullptr;
}

// The largest distance of a row, in its largest value.
double distance(const Json& wanted, const std::vector<float>& found) {
  double worst = 0;
  const size_t width = wanted[0].size();
  EXPECT_EQ(found.size(), wanted.size() * width);
  for (size_t r = 0; r < wanted.size() && found.size() == wanted.size() * width; ++r) {
    double off = 0, size = 0;
    for (size_t i = 0; i < width; ++i) {
      const double value = wanted[r][i].get<double>();
      off = std::max(off, std::abs(value - static_cast<double>(found[r * width + i])));
      size = std::max(size, std::abs(value));
    }
    worst = std::max(worst, off / size);
  }
  return worst;
}

class Heads : public testing::TestWithParam<std::tuple<const char*, catalog::Backend>> {};

TEST_P(Heads, GiveWhatAnIndependentComputationGives) {
  const auto& [name, backend] = GetParam();
  const auto model = load(adapt::golden_path(name), backend);
  ASSERT_NE(model, nullptr);
  ASSERT_NE(model->predictor, nullptr);
  const Json golden =
      adapt::read_json_file(std::string(FL_SOURCE_DIR) + "/tests/golden/prediction.json")[std::string(name)];
  const auto tokens = golden["tokens"].get<Ids>();
  std::vector<float> hidden;
  for (const Json& row : golden["hidden"]) {
    for (const Json& value : row) hidden.push_back(value.get<float>());
  }
  const size_t width = golden["hidden"][0].size();
  runtime::Executor& head = *model->predictor;
  for (const size_t piece : {tokens.size(), size_t{5}, size_t{1}}) {
    auto cache = kv::StateCache::create(head.plan().states, {.page_rows = 4}).value();
    const std::vector<kv::SequenceId> ids = {cache.add_sequence()};
    std::vector<float> logits, next;
    for (size_t at = 0; at < tokens.size(); at += piece) {
      const size_t count = std::min(piece, tokens.size() - at);
      ASSERT_TRUE(cache.extend(ids[0], static_cast<int64_t>(at + count)).ok());
      Ids positions(count), rows(count);
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(at));
      std::iota(rows.begin(), rows.end(), 0);
      const plan::SequenceSpan span{.first_row = 0,
                                    .num_tokens = static_cast<int64_t>(count),
                                    .start_position = static_cast<int64_t>(at),
                                    .planned_length = static_cast<int64_t>(tokens.size())};
      std::copy_n(hidden.data() + at * width, count * width, reinterpret_cast<float*>(head.input("hidden").data()));
      ASSERT_TRUE(head.run({.tokens = std::span(tokens).subspan(at, count),
                            .positions = positions,
                            .output_rows = rows,
                            .sequences = {&span, 1}},
                           cache.views(ids))
                      .ok());
      const auto take = [&](const char* output, std::vector<float>& to) {
        const tensor::View view = head.output(output);
        to.insert(to.end(), view.as<float>(), view.as<float>() + count * (output[0] == 'l' ? 64 : width));
      };
      take("logits", logits);
      take("hidden", next);
    }
    EXPECT_LE(distance(golden["logits"], logits), 2e-5) << "pieces of " << piece;
    EXPECT_LE(distance(golden["next_hidden"], next), 2e-5) << "pieces of " << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Heads,
                         testing::Combine(testing::Values(kLatent, "glm4_moe", "deepseek_v32", "glm_moe_dsa",
                                                          "qwen3_next", "qwen3_5", "qwen3_5_moe", "mimo_v2",
                                                          "nemotron_h"),
                                          testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu)),
                         [](const auto& one) {
                           const bool cpu = std::get<1>(one.param) == catalog::Backend::kCpu;
                           return std::string(std::get<0>(one.param)) + (cpu ? "_cpu" : "_reference");
                         });

TEST(HeadsOfACheckpoint, AreUsedWhenAskedForAndNamedAsUnusedOtherwise) {
  const auto without = adapt::bring_up_golden(adapt::quick_options(), kLatent);
  const auto with = load(adapt::golden_path(kLatent), catalog::Backend::kReference);
  ASSERT_TRUE(without != nullptr && with != nullptr);
  const std::string tensor = "model.layers.2.eh_proj.weight";
  EXPECT_EQ(without->predictor, nullptr);
  EXPECT_TRUE(without->model.coverage.tensors.waived.contains(tensor));
  EXPECT_FALSE(with->model.coverage.tensors.waived.contains(tensor));
  for (const auto& [name, reason] : with->model.coverage.tensors.waived) {
    EXPECT_FALSE(name.starts_with("model.layers.2.")) << name;
  }
  EXPECT_EQ(with->states().size(), without->states().size() + 1);
}

TEST(HeadsOfACheckpoint, AreRefusedByNameWhereThereAreNone) {
  adapt::BringUpOptions options = adapt::quick_options();
  options.predict = true;
  const auto refused = [&](const std::string& name, const char* word) {
    const Status status = adapt::bring_up(adapt::golden_path(name), options).status();
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  };
  refused("llama", "no head that predicts");
  refused("ernie4_5_moe", "no head that predicts");
  refused("kimi_k2", "no layers that predict");
  options.intake.probe_config = false;
  const adapt::TestFolder folder;
  folder.copy_golden("glm4_moe_groups");
  Json config = adapt::read_json_file(folder / "config.json");
  config["num_nextn_predict_layers"] = 1;
  adapt::write_text(folder / "config.json", dump_json(config));
  const Status missing = adapt::bring_up(folder.path(), options).status();
  EXPECT_NE(missing.message().find("eh_proj"), std::string::npos) << missing.message();
}

// Overwrites a BF16 tensor of the folder's file: each element what `value` says for its place.
template <typename Value>
void overwrite(const formats::Checkpoint& checkpoint, const std::string& folder, const std::string& tensor,
               const Value& value) {
  const formats::TensorRecord* record = checkpoint.find(tensor);
  ASSERT_TRUE(record != nullptr && record->dtype == tensor::DType::kBF16) << tensor;
  std::fstream file(folder + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  for (int64_t i = 0; i < record->num_elements(); ++i) {
    const float number = value(i);
    file.seekp(static_cast<std::streamoff>(record->offset) + 2 * i);
    file.write(reinterpret_cast<const char*>(&number) + 2, 2);
  }
}

// Layers that add nothing, so that a token alone says what follows it, and a head that says the same.
std::unique_ptr<adapt::LoadedModel> model_that_is_foreseen(const adapt::TestFolder& folder) {
  folder.copy_golden(kLatent);
  const auto original = adapt::bring_up_golden(adapt::quick_options(), kLatent);
  if (original == nullptr) return nullptr;
  const formats::Checkpoint& checkpoint = *original->checkpoint;
  for (const auto& [name, record] : checkpoint.tensors()) {
    const bool adds = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
    if (adds) overwrite(checkpoint, folder.path(), name, [](int64_t) { return 0.0f; });
    const bool norm =
        name.ends_with("enorm.weight") || name.ends_with("shared_head.norm.weight") || name == "model.norm.weight";
    if (norm) overwrite(checkpoint, folder.path(), name, [](int64_t) { return 1.0f; });
  }
  overwrite(checkpoint, folder.path(), "model.layers.2.eh_proj.weight",
            [](int64_t i) { return i / 64 == i % 64 ? 1.0f : 0.0f; });  // [32, 64]: the embedding's half
  return load(folder.path(), catalog::Backend::kReference);
}

struct Counted {
  Ids tokens;
  int steps = 0;
  double drafted = 0, accepted = 0;
};

Counted run(adapt::LoadedModel& model, int64_t draft_tokens, double temperature, const Ids& prompt) {
  Metrics metrics;
  const auto counts = engine::EngineMetrics::in(metrics);
  const auto engine = engine::Engine::create(*model.executor, {.max_context = 512, .draft_tokens = draft_tokens},
                                             counts, draft_tokens > 0 ? model.predictor.get() : nullptr);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  Counted found;
  request::Request request{.prompt = prompt, .max_tokens = 128};
  request.sampling.temperature = temperature;
  request.sampling.seed = 3;
  EXPECT_TRUE((*engine)
                  ->submit(request,
                           [&](const request::TokenEvent& event) {
                             if (event.token) found.tokens.push_back(*event.token);
                           })
                  .ok());
  while ((*engine)->step()) ++found.steps;
  found.drafted = counts.drafted_tokens.value();
  found.accepted = counts.accepted_tokens.value();
  return found;
}

TEST(Drafting, WhatIsForeseenTakesAQuarterOfTheSteps) {
  const adapt::TestFolder folder;
  const auto model = model_that_is_foreseen(folder);
  ASSERT_NE(model, nullptr);
  const Ids prompt = {5, 9, 17, 30, 2};
  const Counted plain = run(*model, 0, 0, prompt), drafted = run(*model, 3, 0, prompt);
  EXPECT_EQ(drafted.tokens, plain.tokens);
  EXPECT_EQ(plain.tokens.size(), 128u);
  EXPECT_EQ(drafted.accepted, drafted.drafted) << "every guess is right";
  EXPECT_LE(drafted.steps, 128 / 4 + 8);
  EXPECT_GE(plain.steps, 128);
}

// In pages of four rows, guesses taken back or not: the text that there is without any.
class Guessing : public testing::TestWithParam<const char*> {};

TEST_P(Guessing, ChangesNoText) {
  const auto model = load(adapt::golden_path(GetParam()), catalog::Backend::kReference);
  ASSERT_NE(model, nullptr);
  std::vector<request::Request> requests;
  for (const int first : {5, 9, 17}) {
    request::Request request{.prompt = {first, 9, 17, 30, 2, 44, 8, 21, 40, 3, 12}, .max_tokens = 24};
    request.sampling.temperature = requests.size() == 2 ? 1 : 0;
    request.sampling.seed = 3;
    if (requests.empty()) request.sampling.logit_bias = {{7, 100}};  // 7 7 7 …
    requests.push_back(request);
  }
  const auto texts = [&](int64_t draft_tokens, double& drafted) {
    Metrics metrics;
    const auto counts = engine::EngineMetrics::in(metrics);
    const engine::EngineOptions options{
        .max_context = 64, .max_sequences = 1, .page_rows = 4, .draft_tokens = draft_tokens};
    const auto engine =
        engine::Engine::create(*model->executor, options, counts, draft_tokens > 0 ? model->predictor.get() : nullptr);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<Ids> found(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_TRUE((*engine)
                      ->submit(requests[i],
                               [&text = found[i]](const request::TokenEvent& event) {
                                 if (event.token) text.push_back(*event.token);
                               })
                      .ok());
    }
    while ((*engine)->step()) continue;
    drafted = counts.drafted_tokens.value();
    return found;
  };
  double none = 0, some = 0;
  const auto wanted = texts(0, none);
  EXPECT_EQ(texts(3, some), wanted);
  EXPECT_EQ(wanted[0].size(), 24u);
  EXPECT_EQ(none, 0);
  EXPECT_GE(some, 3) << "a guess of each at least";
}

INSTANTIATE_TEST_SUITE_P(Families, Guessing,
                         testing::Values("glm4_moe", "deepseek_v32", "glm_moe_dsa", "qwen3_next", "qwen3_5",
                                         "qwen3_5_moe", "mimo_v2", "nemotron_h"));

// Random weights: the head knows nothing of the model.
TEST(Drafting, WhatIsNeverRightIsHardlyTried) {
  const auto model = load(adapt::golden_path(kLatent), catalog::Backend::kReference);
  ASSERT_NE(model, nullptr);
  for (const double temperature : {0.0, 1.0}) {
    const Counted plain = run(*model, 0, temperature, {5, 9, 17, 30}),
                  drafted = run(*model, 3, temperature, {5, 9, 17, 30});
    EXPECT_EQ(drafted.tokens, plain.tokens);
    const auto wrong = drafted.drafted - drafted.accepted;
    EXPECT_LE(wrong, 0.05 * static_cast<double>(drafted.tokens.size()) + drafted.accepted);
    EXPECT_GT(drafted.drafted, 0);
  }
}

}  // namespace
}  // namespace firstlight
