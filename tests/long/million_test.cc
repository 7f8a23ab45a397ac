// SPDX-License-Identifier: Apache-2.0
// A prompt of 131,072 tokens (FL_LONG=million: 1,048,576) through the engine, in pieces and paged, and eight tokens
// after it: the log-probabilities of every one against the formulas in float64 that stand here, and the memory taken
// against what the planner says. The model is made here: a layer that sees everything and two with windows, heads
// of 16.
#include <gtest/gtest.h>

#include <malloc.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "adapt/bring_up.h"
#include "base/process_memory.h"
#include "engine/engine.h"
#include "planner/memory.h"

namespace firstlight::long_tests {
namespace {

constexpr int kHidden = 32, kHeads = 2, kHeadDim = 16, kMlp = 48, kVocab = 256, kLayers = 3;
constexpr int64_t kWindow = 64, kOutput = 8;
constexpr double kTheta = 10000, kEps = 1e-5;

bool is_million() {
  const char* wanted = std::getenv("FL_LONG");
  return wanted != nullptr && std::string_view(wanted) == "million";
}

using Row = std::vector<double>;

struct Matrix {
  int rows = 0, columns = 0;
  std::vector<float> values;

  Row operator*(const Row& x) const {
    Row y(static_cast<size_t>(rows));
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += static_cast<double>(values[r * x.size() + c]) * x[c];
    }
    return y;
  }
};

// Queries are large, so that few keys of a million weigh much, wherever they stand.
std::map<std::string, Matrix> make_weights() {
  std::mt19937 random(5);
  std::map<std::string, Matrix> weights;
  const auto add = [&](const std::string& name, int rows, int columns, double scale) {
    std::normal_distribution<float> normal(0, static_cast<float>(scale / std::sqrt(static_cast<double>(columns))));
    Matrix& made = weights[name] = {rows, columns, {}};
    for (int i = 0; i < rows * columns; ++i) made.values.push_back(normal(random));
  };
  add("model.embed_tokens.weight", kVocab, kHidden, std::sqrt(kHidden));
  add("lm_head.weight", kVocab, kHidden, 1);
  weights["model.norm.weight"] = {1, kHidden, std::vector<float>(kHidden, 1.0f)};
  for (int i = 0; i < kLayers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    add(at + "self_attn.q_proj.weight", kHeads * kHeadDim, kHidden, 3.5);
    add(at + "self_attn.k_proj.weight", kHeadDim, kHidden, 1);
    add(at + "self_attn.v_proj.weight", kHeadDim, kHidden, 1);
    add(at + "self_attn.o_proj.weight", kHidden, kHeads * kHeadDim, 1);
    add(at + "mlp.gate_proj.weight", kMlp, kHidden, 1);
    add(at + "mlp.up_proj.weight", kMlp, kHidden, 1);
    add(at + "mlp.down_proj.weight", kHidden, kMlp, 1);
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"}) {
      weights[at + norm] = {1, kHidden, std::vector<float>(kHidden, 1.0f)};
    }
  }
  return weights;
}

std::string write_model(const std::map<std::string, Matrix>& weights) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "long-million";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_size": 32, "num_hidden_layers": 3,
  "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48, "vocab_size": 256,
  "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 64,
  "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "tie_word_embeddings": false,
  "max_position_embeddings": 2097152})";
  std::string header = "{", data;
  for (const auto& [name, matrix] : weights) {
    const size_t bytes = matrix.values.size() * sizeof(float);
    const std::string shape = matrix.rows == 1 ? std::to_string(matrix.columns)
                                               : std::to_string(matrix.rows) + "," + std::to_string(matrix.columns);
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(data.size()) + "," + std::to_string(data.size() + bytes) + "]}";
    data.append(reinterpret_cast<const char*>(matrix.values.data()), bytes);
  }
  header += "}";
  header.append(8 - header.size() % 8, ' ');
  const uint64_t length = header.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header << data;
  return folder.string();
}

Row normed(const Row& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  Row y = x;
  for (double& v : y) v /= std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  return y;
}

void add_to(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Halves are pairs.
void rotate(double* x, int64_t position) {
  for (int i = 0; i < kHeadDim / 2; ++i) {
    const double angle = static_cast<double>(position) * std::pow(kTheta, -2.0 * i / kHeadDim);
    const double a = x[i], b = x[i + kHeadDim / 2];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + kHeadDim / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

// The last rows of a sequence, layer by layer, in float64. A layer's rows are those that the next one's window needs.
class Judge {
 public:
  Judge(const std::map<std::string, Matrix>& weights, const std::vector<int32_t>& tokens)
      : weights_(weights), tokens_(tokens) {}

  // Log-probabilities behind each of the last `count` tokens.
  std::vector<Row> last(int64_t count) {
    const auto total = static_cast<int64_t>(tokens_.size());
    int64_t first = std::max<int64_t>(0, total - count - (kLayers - 1) * (kWindow - 1));
    std::vector<Row> x;
    for (int64_t p = first; p < total; ++p) x.push_back(embedding(p));
    for (int layer = 0; layer < kLayers; ++layer) {
      const int64_t begin = std::max<int64_t>(0, total - count - (kLayers - 1 - layer) * (kWindow - 1));
      x = run_layer(layer, x, first, begin);
      first = begin;
    }
    std::vector<Row> rows;
    for (size_t i = x.size() - static_cast<size_t>(count); i < x.size(); ++i) {
      rows.push_back(log_softmax(weights_.at("lm_head.weight") * normed(x[i])));
    }
    return rows;
  }

  // Of the first layer's first head and the last row: what the first quarter of the keys weighs.
  double share_of_first_quarter() const { return share_; }

 private:
  Row embedding(int64_t position) const {
    const Matrix& table = weights_.at("model.embed_tokens.weight");
    const float* row = table.values.data() + tokens_[static_cast<size_t>(position)] * kHidden;
    return {row, row + kHidden};
  }

  static Row log_softmax(Row y) {
    const double top = *std::max_element(y.begin(), y.end());
    double sum = 0;
    for (const double v : y) sum += std::exp(v - top);
    for (double& v : y) v -= top + std::log(sum);
    return y;
  }

  // `x` are the rows from `first` on; the result those from `begin` on. The first layer sees all tokens, whose keys
  // come from the table alone; the others the rows there are.
  std::vector<Row> run_layer(int layer, const std::vector<Row>& x, int64_t first, int64_t begin) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    const auto weight = [&](const char* name) -> const Matrix& { return weights_.at(at + name + "_proj.weight"); };
    const int64_t keys_from = layer == 0 ? 0 : first;
    const auto total = static_cast<int64_t>(tokens_.size());
    std::vector<double> keys, values;
    for (int64_t p = keys_from; p < total; ++p) {
      const Row h = normed(layer == 0 ? embedding(p) : x[static_cast<size_t>(p - first)]);
      Row k = weight("self_attn.k") * h, v = weight("self_attn.v") * h;
      rotate(k.data(), p);
      keys.insert(keys.end(), k.begin(), k.end());
      values.insert(values.end(), v.begin(), v.end());
    }
    std::vector<Row> out;
    for (int64_t p = begin; p < total; ++p) {
      Row y = x[static_cast<size_t>(p - first)];
      Row q = weight("self_attn.q") * normed(y), mixed;
      const int64_t from = layer == 0 ? 0 : std::max(keys_from, p - kWindow + 1);
      for (int head = 0; head < kHeads; ++head) {
        rotate(q.data() + head * kHeadDim, p);
        const Row part = attend(q.data() + head * kHeadDim, keys, values, from - keys_from, p + 1 - keys_from);
        mixed.insert(mixed.end(), part.begin(), part.end());
      }
      add_to(y, weight("self_attn.o") * mixed);
      const Row h = normed(y);
      Row gate = weight("mlp.gate") * h;
      const Row up = weight("mlp.up") * h;
      for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add_to(y, weight("mlp.down") * gate);
      out.push_back(std::move(y));
    }
    return out;
  }

  Row attend(const double* q, const std::vector<double>& keys, const std::vector<double>& values, int64_t from,
             int64_t to) {
    std::vector<double> scores;
    double top = -1e300;
    for (int64_t j = from; j < to; ++j) {
      double dot = 0;
      for (int i = 0; i < kHeadDim; ++i) dot += q[i] * keys[static_cast<size_t>(j * kHeadDim + i)];
      scores.push_back(dot / std::sqrt(static_cast<double>(kHeadDim)));
      top = std::max(top, scores.back());
    }
    Row sum(kHeadDim);
    double weight_sum = 0, early = 0;
    for (int64_t j = from; j < to; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j - from)] - top);
      weight_sum += weight;
      if (j - from < (to - from) / 4) early += weight;
      for (int i = 0; i < kHeadDim; ++i)
        sum[static_cast<size_t>(i)] += weight * values[static_cast<size_t>(j * kHeadDim + i)];
    }
    for (double& v : sum) v /= weight_sum;
    if (to - from > kWindow) share_ = early / weight_sum;
    return sum;
  }

  const std::map<std::string, Matrix>& weights_;
  const std::vector<int32_t>& tokens_;
  double share_ = 0;
};

struct Outcome {
  std::vector<int32_t> output;
  std::vector<Row> logprobs;  // by token id
  double seconds = 0;
  int64_t grown = 0;  // bytes beyond what the process had
};

// What is kept for later requests has to give way: there is room for the planned state alone.
Outcome run_through_engine(adapt::LoadedModel& loaded, std::vector<int32_t> prompt, int64_t context, int64_t state) {
  Outcome outcome;
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = process_memory().resident_bytes;
  auto engine = engine::Engine::create(*loaded.executor,
                                       {.max_context = context, .max_sequences = 1, .state_capacity_bytes = state});
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  request::Request request{.prompt = std::move(prompt), .max_tokens = kOutput};
  request.sampling.temperature = 0;
  request.sampling.num_logprobs = kVocab;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE((*engine)
                  ->submit(std::move(request),
                           [&](const request::TokenEvent& event) {
                             EXPECT_TRUE(event.error.ok()) << event.error.message();
                             if (!event.token) return;
                             outcome.output.push_back(*event.token);
                             Row row(kVocab, 1);
                             for (const auto& one : event.top_logprobs)
                               row[static_cast<size_t>(one.token)] = one.logprob;
                             outcome.logprobs.push_back(std::move(row));
                           })
                  .ok());
  (*engine)->run_until_idle();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.grown = process_memory().peak_bytes - before;
  return outcome;
}

std::vector<int32_t> random_prompt(int64_t count) {
  std::mt19937 random(23);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random() % kVocab));
  return tokens;
}

TEST(Million, LastRowsAreTheFormulasAndMemoryIsAsPlanned) {
  const int64_t length = is_million() ? 1048576 : 131072;
  const auto weights = make_weights();
  adapt::BringUpOptions options{.num_threads = 2,
                                .compute = catalog::ComputeMode::kF32,
                                .state_dtype = tensor::DType::kF32,
                                .generated = runtime::GeneratedMode::kOff,
                                .buckets = {{1, 1}, {1024, 1}}};
  const auto loaded = adapt::bring_up(write_model(weights), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto memory = planner::MemoryModel::create((*loaded)->executor->plan(), nullptr, {});
  ASSERT_TRUE(memory.ok());
  const planner::MemoryNeeds needs = memory->needs({.context = length + kOutput});
  std::vector<int32_t> tokens = random_prompt(length);
  const Outcome outcome = run_through_engine(**loaded, tokens, length + kOutput, needs.state);
  ASSERT_EQ(outcome.output.size(), static_cast<size_t>(kOutput));
  const int64_t planned = needs.total() - needs.weights;
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::printf("| %ld tokens in %.1f s | grown %.1f MB | planned %.1f MB, of it state %.1f MB |\n",
              static_cast<long>(length), outcome.seconds, megabytes(outcome.grown), megabytes(planned),
              megabytes(needs.state));
  EXPECT_NEAR(megabytes(outcome.grown), megabytes(planned), 0.1 * megabytes(planned) + (is_million() ? 0 : 2));

  tokens.insert(tokens.end(), outcome.output.begin(), outcome.output.end() - 1);
  Judge judge(weights, tokens);
  const auto wanted = judge.last(kOutput);
  double worst = 0;
  for (size_t r = 0; r < wanted.size(); ++r) {
    for (size_t i = 0; i < kVocab; ++i) worst = std::max(worst, std::fabs(wanted[r][i] - outcome.logprobs[r][i]));
    EXPECT_EQ(std::max_element(wanted[r].begin(), wanted[r].end()) - wanted[r].begin(), outcome.output[r]);
  }
  std::printf("| worst error of a log-probability %.2g | first quarter of the keys weighs %.3f |\n", worst,
              judge.share_of_first_quarter());
  EXPECT_LT(worst, 1e-4);
  EXPECT_GT(judge.share_of_first_quarter(), 0.02) << "the rows do not hang on far tokens: nothing is shown";
}

}  // namespace
}  // namespace firstlight::long_tests
