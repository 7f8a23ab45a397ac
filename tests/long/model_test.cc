// SPDX-License-Identifier: Apache-2.0
// Whole models over long prompts, and in large batches. Tiny checkpoints of tests/golden whose configs allow 262,144
// positions: windows alone, windows with full layers, latent attention with experts, delta rule, Mamba 2. A long prompt
// in pieces of one size says what it says in pieces of another with its end token by token, and, where float64 can
// follow in the time there is, what the reference says; memory stays within what the plan and the state's declaration
// promise.
#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "adapt/bring_up.h"
#include "engine/engine.h"
#include "engine/scorer.h"
#include "kernel_run.h"

namespace firstlight::long_tests {
namespace {

using Rows = std::vector<std::vector<float>>;

constexpr int64_t kLong = 131072;
constexpr int64_t kSampled = 64;  // rows at the end

struct Model {
  std::string name;
  int64_t tokens;     // in `make test`; 131,072 otherwise
  int64_t reference;  // tokens that the reference follows; the whole grid: four times as many
  std::vector<std::pair<std::string, std::string>> edits;
};

std::string with_long_config(const Model& model) {
  const auto from = std::filesystem::path(FL_SOURCE_DIR) / "tests/golden/data" / model.name;
  const auto to = std::filesystem::path(testing::TempDir()) / ("long-" + model.name);
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(from / "model.safetensors", to / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  std::ostringstream text;
  text << std::ifstream(from / "config.json").rdbuf();
  std::string config = text.str();
  for (const auto& [old_text, new_text] : model.edits) {
    const size_t at = config.find(old_text);
    EXPECT_NE(at, std::string::npos) << old_text;
    if (at != std::string::npos) config.replace(at, old_text.size(), new_text);
  }
  std::ofstream(to / "config.json") << config;
  return to.string();
}

std::unique_ptr<adapt::LoadedModel> bring_up(const std::string& path, catalog::Backend backend,
                                             std::vector<compiler::BucketSize> buckets) {
  adapt::BringUpOptions options;
  options.backend = backend;
  options.num_threads = 2;
  options.buckets = std::move(buckets);
  options.state_dtype = DType::kF32;
  options.compute = catalog::ComputeMode::kF32;
  options.generated = runtime::GeneratedMode::kOff;
  auto loaded = adapt::bring_up(path, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? std::move(*loaded) : nullptr;
}

// Ids with long runs of one token and stretches that repeat.
std::vector<int32_t> prompt_of(int64_t count, int32_t vocab) {
  std::mt19937 random(17);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const bool repeats = i % 10000 >= 3000 && i % 10000 < 5000;
    tokens.push_back(repeats ? tokens.back() : 3 + static_cast<int32_t>(random() % static_cast<uint32_t>(vocab - 3)));
  }
  return tokens;
}

int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// The last rows, the last `single` tokens fed one by one.
Rows last_rows(runtime::Executor& executor, std::span<const int32_t> tokens, int64_t chunk, int64_t single) {
  const auto total = static_cast<int64_t>(tokens.size());
  auto sequence = engine::ScoredSequence::create(executor, total);
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  Rows rows;
  const auto keep = [&](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
  const auto many = static_cast<size_t>(total - single);
  EXPECT_TRUE(sequence->feed(tokens.first(many), chunk, total - kSampled, keep).ok());
  EXPECT_TRUE(sequence->feed(tokens.subspan(many), 1, total - kSampled, keep).ok());
  return rows;
}

double largest(const Rows& rows) {
  double top = 0;
  for (const auto& row : rows) {
    for (const float v : row) top = std::max(top, static_cast<double>(std::fabs(v)));
  }
  return top;
}

// All within `share` of the largest logit.
void expect_near(const Rows& found, const Rows& wanted, double share, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  Tally tally;
  const double top = largest(wanted);
  for (size_t r = 0; r < found.size(); ++r) {
    for (size_t i = 0; i < found[r].size(); ++i) {
      tally.add(static_cast<double>(found[r][i]), static_cast<double>(wanted[r][i]), share * top);
    }
  }
  tally.conclude(what, "model");
}

// The bound of the goldens (docs/numerics.md); three times what was seen.
constexpr double kShare = 2e-5;

class ModelLong : public testing::TestWithParam<Model> {};

TEST_P(ModelLong, PiecesOfAnySizeSayTheSameAndTheReferenceToo) {
  const Model& model = GetParam();
  const int64_t total = is_full() ? kLong : model.tokens;
  const std::string path = with_long_config(model);
  const auto cpu = bring_up(path, catalog::Backend::kCpu, {{1, 1}, {1024, 1024}});
  ASSERT_NE(cpu, nullptr);
  const std::vector<int32_t> tokens = prompt_of(total, 60);
  const auto cache = kv::StateCache::create(cpu->executor->plan().states, {});
  ASSERT_TRUE(cache.ok());
  const runtime::MemoryUse memory = cpu->executor->memory();
  const int64_t promised = cache->bytes_for_length(total) + memory.arena_bytes + memory.workspace_bytes;
  malloc_trim(0);  // what earlier models have left
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = status_bytes("VmRSS:");
  const Rows first = last_rows(*cpu->executor, tokens, 1024, 0);
  const int64_t grown = status_bytes("VmHWM:") - before;
  std::printf("| memory of %s, %ld tokens | model | %.1f MB | %.1f MB promised | |\n", model.name.c_str(),
              static_cast<long>(total), static_cast<double>(grown) / 1e6, static_cast<double>(promised) / 1e6);
  EXPECT_LE(grown, promised + (int64_t{8} << 20)) << "beyond state, activations and work space";
  ASSERT_EQ(first.size(), static_cast<size_t>(kSampled));
  const std::string what = model.name + ", " + std::to_string(total) + " tokens";
  expect_near(last_rows(*cpu->executor, tokens, 1000, 40), first, kShare, what + ", other pieces");

  const auto reference = bring_up(path, catalog::Backend::kReference, {{1024, 1024}});
  ASSERT_NE(reference, nullptr);
  const int64_t followed = std::min(total, is_full() ? 4 * model.reference : model.reference);
  const auto begin = std::span(tokens).first(static_cast<size_t>(followed));
  expect_near(last_rows(*cpu->executor, begin, 1024, 0), last_rows(*reference->executor, begin, 1024, 0), kShare,
              model.name + ", " + std::to_string(followed) + " tokens, reference");
}

const std::pair<std::string, std::string> kPositions = {"\"max_position_embeddings\": 128",
                                                        "\"max_position_embeddings\": 262144"};
const Model kModels[] = {
    {"mistral", kLong, 8192, {kPositions}},
    {"mamba2", kLong, 8192, {}},
    {"gemma3", 16384, 2048, {kPositions}},
    {"qwen3_next", 16384, 2048, {kPositions}},
    {"deepseek_v3",
     16384,
     2048,
     {{"\"max_position_embeddings\": 4096", "\"max_position_embeddings\": 262144"},
      {"\"factor\": 4.0", "\"factor\": 256.0"}}},
};

INSTANTIATE_TEST_SUITE_P(Models, ModelLong, testing::ValuesIn(kModels),
                         [](const auto& tested) { return tested.param.name; });

// 256 prompts of 512 tokens in one run, experts grouped over all of them; then one token each.
TEST(ModelBatch, In256SequencesEachSaysWhatItSaysAlone) {
  constexpr int64_t kSequences = 256, kEach = 512;
  const std::string path = with_long_config(kModels[4]);
  const auto cpu = bring_up(path, catalog::Backend::kCpu, {{512, 512}, {kSequences * kEach, kSequences}});
  const auto reference = bring_up(path, catalog::Backend::kReference, {{512, 512}});
  ASSERT_TRUE(cpu != nullptr && reference != nullptr);
  std::vector<int32_t> tokens = prompt_of(kSequences * kEach, 60), positions, outputs, next;
  auto cache = kv::StateCache::create(cpu->executor->plan().states, {.page_rows = 64});
  ASSERT_TRUE(cache.ok());
  std::vector<kv::SequenceId> ids;
  std::vector<plan::SequenceSpan> spans, single;
  for (int64_t s = 0; s < kSequences; ++s) {
    ids.push_back(cache->add_sequence());
    ASSERT_TRUE(cache->extend(ids.back(), kEach + 1).ok());
    spans.push_back({s * kEach, kEach, 0, kEach + 1});
    single.push_back({s, 1, kEach, kEach + 1});
    for (int64_t i = 0; i < kEach; ++i) positions.push_back(static_cast<int32_t>(i));
    outputs.push_back(static_cast<int32_t>(s * kEach + kEach - 1));
    next.push_back(static_cast<int32_t>(3 + s % 50));
  }
  const auto rows_of = [&](const plan::Batch& batch) {
    EXPECT_TRUE(cpu->executor->run(batch, cache->views(ids)).ok());
    const tensor::View logits = cpu->executor->output("logits");
    Rows rows;
    for (int64_t s = 0; s < kSequences; ++s) {
      rows.emplace_back(logits.as<float>() + s * logits.dim(1), logits.as<float>() + (s + 1) * logits.dim(1));
    }
    return rows;
  };
  const Rows prompts = rows_of({tokens, positions, outputs, spans});
  std::vector<int32_t> numbers(kSequences), depths(kSequences, kEach);
  for (int32_t s = 0; s < kSequences; ++s) numbers[static_cast<size_t>(s)] = s;
  const Rows steps = rows_of({next, depths, numbers, single});

  Rows found, alone, judged;
  for (const size_t s : {0u, 1u, 77u, 128u, 200u, 254u, 255u}) {
    std::vector<int32_t> own(tokens.begin() + static_cast<std::ptrdiff_t>(s * kEach),
                             tokens.begin() + static_cast<std::ptrdiff_t>((s + 1) * kEach));
    own.push_back(next[s]);
    found.push_back(prompts[s]);
    found.push_back(steps[s]);
    for (auto* executor : {cpu->executor.get(), reference->executor.get()}) {
      auto sequence = engine::ScoredSequence::create(*executor, kEach + 1);
      ASSERT_TRUE(sequence.ok());
      Rows& to = executor == cpu->executor.get() ? alone : judged;
      const auto keep = [&](int64_t, std::span<const float> row) { to.emplace_back(row.begin(), row.end()); };
      ASSERT_TRUE(sequence->feed(std::span(own).first(kEach), 512, kEach - 1, keep).ok());
      ASSERT_TRUE(sequence->feed(std::span(own).last(1), 1, kEach, keep).ok());
    }
  }
  expect_near(found, alone, kShare, "deepseek_v3, 256 x 512 + 1, alone");
  expect_near(found, judged, kShare, "deepseek_v3, 256 x 512 + 1, reference");
}

// Sampling 256 rows at a time, each with its own parameters and stream.
TEST(ModelBatch, TwoHundredAndFiftySixRequestsSampleWhatEachSamplesAlone) {
  const auto cpu = bring_up(with_long_config(kModels[3]), catalog::Backend::kCpu, {{256, 256}, {4096, 256}});
  ASSERT_NE(cpu, nullptr);
  auto engine = engine::Engine::create(
      *cpu->executor, {.max_context = 640, .max_sequences = 256, .page_rows = 32, .reuse_prefixes = false});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const std::vector<int32_t> tokens = prompt_of(70000, 60);
  const auto request_of = [&](size_t i) {
    request::Request one;
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(i * 256);
    one.prompt = {first, first + static_cast<std::ptrdiff_t>(1 + i * 131 % 512)};
    one.max_tokens = 6;
    one.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f + 0.1f * static_cast<float>(i % 5);
    one.sampling.seed = 1000 + i;
    if (i % 4 == 1) one.sampling.top_k = 5;
    if (i % 5 == 1) one.sampling.top_p = 0.7f;
    if (i % 7 == 1) one.sampling.presence_penalty = 0.5f;
    return one;
  };
  std::vector<std::vector<int32_t>> together(256);
  const auto into = [](std::vector<int32_t>& to) {
    return [&to](const request::TokenEvent& event) {
      if (event.token) to.push_back(*event.token);
    };
  };
  for (size_t i = 0; i < together.size(); ++i) ASSERT_TRUE((*engine)->submit(request_of(i), into(together[i])).ok());
  (*engine)->run_until_idle();
  for (size_t i = 0; i < together.size(); i += 17) {
    std::vector<int32_t> alone;
    ASSERT_TRUE((*engine)->submit(request_of(i), into(alone)).ok());
    (*engine)->run_until_idle();
    EXPECT_EQ(together[i], alone) << "request " << i;
    EXPECT_FALSE(alone.empty());
  }
}

}  // namespace
}  // namespace firstlight::long_tests
