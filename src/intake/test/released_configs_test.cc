// SPDX-License-Identifier: Apache-2.0
// Configs of real releases: those of the shipped families trace with every key bound or waived; the others are refused
// for a stated reason. Tensor lists of real checkpoints are bound whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/file_map.h"
#include "base/json.h"
#include "intake/intake.h"
#include "intake/shrink.h"

namespace firstlight::intake {
namespace {

const std::string kShared = std::string(FL_SOURCE_DIR) + "/../shared/data/";

ModelDescription description_of(const std::string& directory) {
  ModelDescription description{.config = read_text_file(directory + "/config.json").value(),
                               .config_name = directory + "/config.json"};
  if (const auto text = read_text_file(directory + "/generation_config.json"); text.ok())
    description.generation_config = *text;
  if (const auto text = read_text_file(directory + "/hf_quant_config.json"); text.ok())
    description.quantisation = *text;
  return description;
}

TEST(ReleasedConfigs, ShippedFamiliesAreCoveredWhole) {
  if (!std::filesystem::exists(kShared + "configs")) GTEST_SKIP() << "needs shared data: configs";
  for (const char* name : {"Meta-Llama-3.1-8B",
                           "Meta-Llama-3.1-70B",
                           "Meta-Llama-3.1-405B",
                           "Llama-3.2-1B",
                           "Mistral-7B-Instruct",
                           "e5-mistral-7b",
                           "Devstral-Small-2507",
                           "Qwen2.5-0.5B",
                           "Qwen2.5-7B",
                           "Qwen2.5-72B",
                           "Qwen3-0.6B",
                           "Qwen3-8B",
                           "Qwen3-32B",
                           "Qwen3-32B-FP8",
                           "mediatek-Qwen3-4B",
                           "Qwen3-30B-A3B",
                           "Qwen3-30B-A3B-FP8",
                           "Gemma-3-27b-it",
                           "gpt-oss-120b",
                           "DeepSeek-V3",
                           "DeepSeek-V3.1",
                           "DeepSeek-R1",
                           "Kimi-K2-Instruct",
                           "Gemma-2-2b",
                           "Gemma-2-9b",
                           "mediatek-gemma2_2b_it",
                           "GLM-4.5",
                           "MiniMax-M2.5",
                           "Granite-3.1-1b-a400m",
                           "SmolLM3-3B",
                           "Phi-3-mini",
                           "Hunyuan-A13B",
                           "Mixtral-8x22B-v0.1",
                           "gemma-4-26B-A4B",
                           "MiMo-V2.5-Pro",
                           "Qwen3-Next-80B-A3B-Instruct",
                           "Qwen3.5-27B",
                           "Qwen3.5-35B-A3B",
                           "Qwen3.5-397B-A17B",
                           "Kimi-Linear-48B-A3B-Instruct",
                           "LFM2-1.2B",
                           "MiniMax-M1",
                           "Nemotron-H-56B-Base-8K",
                           "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                           "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
                           "DeepSeek-V3.2",
                           "DeepSeek-V3.2-Exp",
                           "GLM-5",
                           "GLM-5-FP8",
                           "GLM-5.1",
                           "GLM-5.2-FP8",
                           "Llama-4-Scout-17B-16E-Instruct",
                           "MiniMax-M3",
                           "DeepSeek-V4-Flash",
                           "DeepSeek-V4-Pro"}) {
    const auto model = trace_model(description_of(kShared + "configs/" + name), nullptr);
    ASSERT_TRUE(model.ok()) << name << ": " << model.status().to_string();
    EXPECT_TRUE(model->coverage.complete()) << name;
    // These state their end in a generation config that is not at hand.
    const bool elsewhere = std::set<std::string>{"MiniMax-M1", "MiniMax-M2.5", "MiniMax-M3", "MiMo-V2.5-Pro",
                                                 "Llama-4-Scout-17B-16E-Instruct"}
                               .contains(name);
    EXPECT_EQ(model->tokens.eos.empty(), elsewhere) << name;
  }
}

TEST(ReleasedConfigs, OthersAreRefusedForAReason) {
  if (!std::filesystem::exists(kShared + "configs")) GTEST_SKIP() << "needs shared data: configs";
  const struct {
    const char* name;
    const char* reason;
  } cases[] = {{"Skywork-Reward-Llama", "LlamaForSequenceClassification"},
               {"gte-Qwen2-7B", "is_causal"},
               {"mediatek-gemma3_1b_it", "global_local_attention_pattern"}};
  for (const auto& c : cases) {
    const auto model = trace_model(description_of(kShared + "configs/" + c.name), nullptr);
    ASSERT_FALSE(model.ok()) << c.name;
    EXPECT_NE(model.status().message().find(c.reason), std::string::npos) << c.name << ": " << model.status().message();
  }
}

// Every release that says how it is quantised: understood, whatever else may be against its model.
TEST(ReleasedConfigs, QuantisationsAreUnderstood) {
  if (!std::filesystem::exists(kShared + "configs")) GTEST_SKIP() << "needs shared data: configs";
  int understood = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kShared + "configs")) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    const ModelDescription description = description_of(entry.path().string());
    if (description.quantisation.empty() && description.config.find("quantization_config") == std::string::npos)
      continue;
    const std::string name = entry.path().filename();
    // Every key of these is changed and must matter; that takes long, and one of each dialect is enough.
    const bool probed = std::set<std::string>{"Llama-3.1-405B-ome", "Llama-3.1-70B-Instruct-FP8",
                                              "Qwen3-32B-FP8-Static-PerTensor", "MiniMax-M2.5-NVFP4"}
                            .contains(name);
    const auto model = trace_model(description, nullptr, {.probe_config = probed});
    if (model.ok()) {
      EXPECT_FALSE(model->quantisation.empty()) << name;
      ++understood;
    } else {
      EXPECT_EQ(model.status().message().find("quant"), std::string::npos) << name << ": " << model.status().message();
      std::printf("%s: %s\n", name.c_str(), model.status().message().substr(0, 200).c_str());
    }
  }
  EXPECT_GE(understood, 12);
}

// "0-23", "3,5-9:2" and so on, both ends included.
std::vector<std::string> expand(const std::string& ranges) {
  std::vector<std::string> out;
  for (size_t at = 0; at < ranges.size();) {
    const size_t comma = std::min(ranges.find(',', at), ranges.size());
    const std::string part = ranges.substr(at, comma - at);
    const size_t dash = part.find('-'), colon = part.find(':');
    const int first = std::stoi(part), last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    const int step = colon == std::string::npos ? 1 : std::stoi(part.substr(colon + 1));
    for (int i = first; i <= last; i += step) out.push_back(std::to_string(i));
    at = comma + 1;
  }
  return out;
}

std::string with(std::string name, const std::string& mark, const std::string& value) {
  const size_t at = name.find(mark);
  return at == std::string::npos ? name : name.replace(at, mark.size(), value);
}

// `mark` in the names replaced by each number of the ranges that `entry` has under `key`.
std::vector<std::string> names_of(const Json& entry, const char* key, const std::string& mark,
                                  const std::vector<std::string>& names) {
  if (!entry.contains(key)) return names;
  std::vector<std::string> out;
  for (const std::string& name : names) {
    for (const std::string& number : expand(entry.at(key).get<std::string>())) out.push_back(with(name, mark, number));
  }
  return out;
}

std::vector<TensorHeader> manifest(const std::string& path) {
  const std::map<std::string, tensor::DType> dtypes = {{"BF16", tensor::DType::kBF16},
                                                       {"F32", tensor::DType::kF32},
                                                       {"U8", tensor::DType::kU8},
                                                       {"F8_E4M3", tensor::DType::kF8E4M3}};
  std::vector<TensorHeader> headers;
  const Json list = parse_json(read_text_file(path).value()).value();
  for (const Json& entry : list.at("tensors")) {
    const auto layers = names_of(entry, "L", "{L}", {entry.at("name").get<std::string>()});
    for (const std::string& name : names_of(entry, "E", "{E}", layers)) {
      headers.push_back(
          {name, dtypes.at(entry.at("dtype").get<std::string>()), entry.at("shape").get<std::vector<int64_t>>()});
    }
  }
  return headers;
}

TEST(ReleasedConfigs, GptOss20BIsBoundTensorByTensor) {
  const std::string path = kShared + "tensor-manifests/gpt-oss-20b.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: tensor-manifests/gpt-oss-20b.json";
  // The 20b release has the 120b's config but for the numbers of layers and experts.
  Json config = parse_json(read_text_file(kShared + "configs/gpt-oss-120b/config.json").value()).value();
  config["num_hidden_layers"] = 24;
  config["num_local_experts"] = 32;
  Json types = Json::array();
  for (int i = 0; i < 24; ++i) types.push_back(config["layer_types"][static_cast<size_t>(i)]);
  config["layer_types"] = types;
  const auto headers = manifest(path);
  const auto model = trace_model({.config = dump_json(config)}, &headers);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->coverage.tensors.bound.size(), 459u);
  EXPECT_EQ(model->quantisation, "mxfp4");
  EXPECT_TRUE(model->warnings.empty());
}

TEST(ReleasedConfigs, RecurrentReleasesAreBoundTensorByTensor) {
  if (!std::filesystem::exists(kShared + "tensor-manifests")) GTEST_SKIP() << "needs shared data: tensor-manifests";
  const struct {
    const char* config;
    const char* tensors;
    size_t waived;  // vision tower
    bool predict;
  } cases[] = {{"Qwen3.5-35B-A3B", "Qwen3.6-35B-A3B", 333, true},
               {"Kimi-Linear-48B-A3B-Instruct", "Kimi-Linear-48B-A3B", 0, false}};
  for (const auto& c : cases) {
    const auto headers = manifest(kShared + "tensor-manifests/" + c.tensors + ".json");
    const auto model = trace_model(description_of(kShared + "configs/" + c.config), &headers, {.predict = c.predict});
    ASSERT_TRUE(model.ok()) << c.config << ": " << model.status().to_string();
    EXPECT_TRUE(model->warnings.empty());
    EXPECT_EQ(model->predictor.has_value(), c.predict);
    EXPECT_EQ(model->coverage.tensors.waived.size(), c.waived) << c.config;
    EXPECT_EQ(model->coverage.tensors.bound.size() + c.waived, headers.size()) << c.config;
  }
}

// 92,425 tensors, the indexers' among them, and a prediction layer.
TEST(ReleasedConfigs, DeepSeekV32IsBoundTensorByTensor) {
  const std::string path = kShared + "tensor-manifests/DeepSeek-V3.2.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: tensor-manifests/DeepSeek-V3.2.json";
  const auto headers = manifest(path);
  const auto model = trace_model(description_of(kShared + "configs/DeepSeek-V3.2"), &headers,
                                 {.probe_config = false, .predict = true});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->coverage.tensors.unbound.empty());
  EXPECT_TRUE(model->coverage.tensors.waived.empty());
  EXPECT_TRUE(model->coverage.tensors.missing.empty());
  size_t choices = 0;
  for (const ir::Node& node : model->graph.nodes) choices += node.op == ops::OpKind::kIndexScores ? 1 : 0;
  EXPECT_EQ(choices, 61u);
}

// The indexers' matrices and the tower's among them.
TEST(ReleasedConfigs, MiniMaxM3IsBoundTensorByTensor) {
  const std::string path = kShared + "tensor-manifests/MiniMax-M3.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: tensor-manifests/MiniMax-M3.json";
  const auto headers = manifest(path);
  const auto model = trace_model(description_of(kShared + "configs/MiniMax-M3"), &headers, {.probe_config = false});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->coverage.tensors.unbound.empty());
  EXPECT_TRUE(model->coverage.tensors.missing.empty());
  size_t choices = 0;
  for (const ir::Node& node : model->graph.nodes) choices += node.op == ops::OpKind::kIndexScores ? 1 : 0;
  EXPECT_EQ(choices, 57u);
}

TEST(ReleasedConfigs, TwinsHaveEveryFeatureAndAreSmall) {
  if (!std::filesystem::exists(kShared + "configs")) GTEST_SKIP() << "needs shared data: configs";
  for (const char* name :
       {"Meta-Llama-3.1-8B", "Qwen3-30B-A3B", "Gemma-3-27b-it", "gpt-oss-120b", "DeepSeek-V3", "GLM-5", "Phi-3-mini",
        "MiniMax-M2.5", "Qwen3-Next-80B-A3B-Instruct", "Kimi-Linear-48B-A3B-Instruct",
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Llama-4-Scout-17B-16E-Instruct", "LFM2-1.2B"}) {
    const auto config = parse_config_tree(read_text_file(kShared + "configs/" + name + "/config.json").value());
    const auto twin = shrink_config(*config, {.vocabulary = 272, .intake = {}});
    ASSERT_TRUE(twin.ok()) << name << ": " << twin.status().to_string();
    const auto &all = twin->features.all, &wanted = twin->original.all;
    EXPECT_TRUE(std::includes(all.begin(), all.end(), wanted.begin(), wanted.end())) << name;
    EXPECT_EQ(twin->features.kinds.size(), twin->original.kinds.size()) << name;
    EXPECT_LE(twin->features.num_layers, 6) << name;
    EXPECT_LT(twin->features.weights, 3'000'000) << name;
    EXPECT_GT(twin->original.weights, 1'000 * twin->features.weights) << name;
  }
}

}  // namespace
}  // namespace firstlight::intake
