// SPDX-License-Identifier: Apache-2.0
// Embeddings of tiny checkpoints against the original code's hidden states (tests/golden/embeddings.json): alone,
// beside the logits and text that is generated at the same time, in small pieces, put out and computed again.
#include <gtest/gtest.h>

#include <cmath>

#include "adapt/bring_up.h"
#include "base/file_map.h"
#include "base/json.h"
#include "engine/engine.h"

namespace firstlight {
namespace {

using request::Pooling;

const std::string kGolden = std::string(FL_SOURCE_DIR) + "/tests/golden/";

std::unique_ptr<adapt::LoadedModel> load(const std::string& name, adapt::Hidden hidden, catalog::Backend backend) {
  adapt::BringUpOptions options{.backend = backend,
                                .num_threads = 1,
                                .compute = catalog::ComputeMode::kF32,
                                .state_dtype = tensor::DType::kF32,
                                .generated = runtime::GeneratedMode::kOff,
                                .buckets = {{16, 4}, {128, 4}},
                                .hidden = hidden};
  auto loaded = adapt::bring_up(kGolden + "data/" + name, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? std::move(*loaded) : nullptr;
}

std::unique_ptr<engine::Engine> engine_of(adapt::LoadedModel& loaded, engine::EngineOptions options = {}) {
  options.max_context = 128;
  auto engine = engine::Engine::create(*loaded.executor, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(*engine) : nullptr;
}

struct Case {
  std::string model;
  std::vector<int32_t> tokens;
  std::map<Pooling, std::vector<float>> wanted;
};

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  const Json list = parse_json(read_text_file(kGolden + "embeddings.json").value()).value();
  for (const Json& one : list) {
    Case next{.model = one["model"], .tokens = one["tokens"].get<std::vector<int32_t>>(), .wanted = {}};
    for (const auto pooling : {Pooling::kLast, Pooling::kMean, Pooling::kFirst}) {
      next.wanted[pooling] = one[std::string(request::pooling_name(pooling))].get<std::vector<float>>();
    }
    cases.push_back(std::move(next));
  }
  return cases;
}

// Within 2e-5 of the largest value, and in the same direction.
void expect_near(const std::vector<float>& found, const std::vector<float>& wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  double top = 0, worst = 0, product = 0, own = 0, other = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto a = static_cast<double>(found[i]), b = static_cast<double>(wanted[i]);
    top = std::max(top, std::fabs(b));
    worst = std::max(worst, std::fabs(a - b));
    product += a * b;
    own += a * a;
    other += b * b;
  }
  EXPECT_LE(worst, 2e-5 * top) << what;
  EXPECT_GT(product / std::sqrt(own * other), 0.99999) << what;
}

using Vectors = std::map<std::string, std::vector<float>>;

void submit(engine::Engine& engine, const Case& one, Pooling pooling, Vectors& to) {
  const std::string name =
      one.model + ", " + std::to_string(one.tokens.size()) + " tokens, " + std::string(request::pooling_name(pooling));
  const auto ticket =
      engine.submit({.prompt = one.tokens, .embed = pooling}, [&to, name](const request::TokenEvent& event) {
        EXPECT_EQ(event.finish, request::FinishReason::kStop) << name << event.error.message();
        EXPECT_FALSE(event.token);
        EXPECT_TRUE(to.emplace(name, event.embedding).second) << name << " ended twice";
      });
  EXPECT_TRUE(ticket.ok()) << ticket.status().message();
}

void expect_golden(const Vectors& found, const std::vector<Case>& cases, const std::string& model,
                   const std::string& how) {
  size_t compared = 0;
  for (const Case& one : cases) {
    for (const auto& [pooling, wanted] : one.wanted) {
      const std::string name = one.model + ", " + std::to_string(one.tokens.size()) + " tokens, " +
                               std::string(request::pooling_name(pooling));
      if (one.model != model) continue;
      ASSERT_TRUE(found.contains(name)) << name;
      expect_near(found.at(name), wanted, name + ", " + how);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 9u) << model;
}

TEST(Embedding, AreTheOriginalCodes) {
  const auto cases = read_cases();
  ASSERT_EQ(cases.size(), 18u);
  for (const auto backend : {catalog::Backend::kReference, catalog::Backend::kCpu}) {
    for (size_t first = 0; first < cases.size(); first += 3) {
      const std::string& model = cases[first].model;
      const auto loaded = load(model, adapt::Hidden::kAlone, backend);
      ASSERT_NE(loaded, nullptr);
      EXPECT_EQ(loaded->executor->plan().outputs.size(), 1u) << "no head";
      const auto engine = engine_of(*loaded);
      ASSERT_NE(engine, nullptr);
      EXPECT_EQ(engine->vocab_size(), 64);
      Vectors found;
      for (size_t i = first; i < first + 3; ++i) {
        for (const auto& [pooling, wanted] : cases[i].wanted) submit(*engine, cases[i], pooling, found);
      }
      engine->run_until_idle();
      expect_golden(found, cases, model, std::string(catalog::backend_name(backend)));
      const auto text = engine->submit({.prompt = {3}}, [](const auto&) {});
      EXPECT_NE(text.status().message().find("embeddings alone"), std::string::npos) << text.status().message();
    }
  }
}

struct Answer {
  std::vector<int32_t> tokens;
  bool ended = false;
};

std::vector<Answer> generate_beside(engine::Engine& engine, const std::function<void()>& more) {
  std::vector<Answer> answers(4);
  for (size_t i = 0; i < answers.size(); ++i) {
    request::Request one{.prompt = {static_cast<int32_t>(5 + i), 9, 31}, .max_tokens = 12, .ignore_model_stops = true};
    one.sampling.temperature = 0;
    EXPECT_TRUE(engine
                    .submit(std::move(one),
                            [&answers, i](const request::TokenEvent& event) {
                              EXPECT_TRUE(event.embedding.empty());
                              if (event.token) answers[i].tokens.push_back(*event.token);
                              answers[i].ended = event.finish == request::FinishReason::kLength;
                            })
                    .ok());
    if (i == 1) more();
  }
  engine.run_until_idle();
  return answers;
}

// Pieces of 16 tokens, four requests at a time, and too little room for all: whoever is put out begins again.
TEST(Embedding, BesideTextInPiecesAndUnderPressure) {
  const auto cases = read_cases();
  for (const std::string model : {"qwen3", "mamba2"}) {
    const auto loaded = load(model, adapt::Hidden::kBeside, catalog::Backend::kCpu);
    ASSERT_NE(loaded, nullptr);
    const auto alone = generate_beside(*engine_of(*loaded), [] {});
    const auto measure = kv::StateCache::create(loaded->executor->plan().states, {.page_rows = 8});
    ASSERT_TRUE(measure.ok());
    const int64_t room = measure->bytes_for_length(90) * 3 / 2;
    const auto engine = engine_of(*loaded, {.max_sequences = 4,
                                            .step_tokens = 16,
                                            .state_capacity_bytes = room,
                                            .page_rows = 8,
                                            .admission = engine::Admission::kOnDemand});
    ASSERT_NE(engine, nullptr);
    Vectors found;
    const auto together = generate_beside(*engine, [&] {
      for (const Case& one : cases) {
        if (one.model != model) continue;
        for (const auto& [pooling, wanted] : one.wanted) submit(*engine, one, pooling, found);
      }
    });
    expect_golden(found, cases, model, "beside text");
    for (size_t i = 0; i < together.size(); ++i) {
      EXPECT_TRUE(together[i].ended);
      EXPECT_EQ(together[i].tokens, alone[i].tokens) << model << ", request " << i;
    }
  }
}

TEST(Embedding, RefusesWhatItCannotGive) {
  const auto without = load("llama", adapt::Hidden::kNone, catalog::Backend::kCpu);
  const auto with = load("llama", adapt::Hidden::kBeside, catalog::Backend::kCpu);
  ASSERT_TRUE(without != nullptr && with != nullptr);
  const auto message = [](engine::Engine& engine, std::vector<int32_t> tokens) {
    const auto ticket = engine.submit({.prompt = std::move(tokens), .embed = Pooling::kMean}, [](const auto&) {});
    return ticket.ok() ? std::string() : ticket.status().message();
  };
  EXPECT_NE(message(*engine_of(*without), {3}).find("without embeddings"), std::string::npos);
  const auto engine = engine_of(*with);
  EXPECT_NE(message(*engine, {}).find("no tokens"), std::string::npos);
  EXPECT_NE(message(*engine, {64}).find("64"), std::string::npos);
  EXPECT_NE(message(*engine, std::vector<int32_t>(129, 3)).find("129 tokens, at most 128"), std::string::npos);
  EXPECT_EQ(message(*engine, std::vector<int32_t>(128, 3)), "");
  bool cancelled = false;
  const auto ticket =
      engine->submit({.prompt = {3, 4}, .embed = Pooling::kMean}, [&](const request::TokenEvent& event) {
        cancelled = event.finish == request::FinishReason::kCancelled && event.embedding.empty();
      });
  ASSERT_TRUE(ticket.ok());
  engine->cancel(*ticket);
  engine->run_until_idle();
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace firstlight
