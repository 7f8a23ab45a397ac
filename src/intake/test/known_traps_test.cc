// SPDX-License-Identifier: Apache-2.0
// Traps that others met when bringing up models, on the small golden checkpoints: tied and untied heads, head sizes,
// layers after the last one, windows, YaRN's second correction, norms with an eps of their own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "base/file_map.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "intake/intake.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

struct Golden {
  Json config;
  std::vector<TensorHeader> headers;

  explicit Golden(const std::string& name) {
    const std::string directory = std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + name;
    config = parse_json(read_text_file(directory + "/config.json").value()).value();
    const auto checkpoint = formats::Checkpoint::open(directory).value();
    for (const auto& [tensor, record] : checkpoint.tensors()) headers.push_back({tensor, record.dtype, record.shape});
  }
  void drop(const std::string& name) {
    std::erase_if(headers, [&](const TensorHeader& header) { return header.name == name; });
  }
  Result<Model> load() const { return trace_model({.config = dump_json(config)}, &headers); }
  std::string failure() const {
    const auto model = load();
    return model.ok() ? "(it loaded)" : model.status().to_string();
  }
};

std::vector<const ir::Node*> nodes_of(const ir::Graph& graph, ops::OpKind op) {
  std::vector<const ir::Node*> nodes;
  for (const ir::Node& node : graph.nodes) {
    if (node.op == op) nodes.push_back(&node);
  }
  return nodes;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(KnownTraps, TiedHeads) {
  Golden tied("smollm2");
  tied.headers.push_back({"lm_head.weight", tensor::DType::kF32, {64, 36}});
  const auto redundant = tied.load();
  ASSERT_TRUE(redundant.ok()) << redundant.status().to_string();
  EXPECT_TRUE(redundant->coverage.tensors.waived.contains("lm_head.weight"));
  ASSERT_EQ(redundant->warnings.size(), 1u);
  Golden untied("llama");
  untied.drop("lm_head.weight");
  EXPECT_TRUE(has(untied.failure(), "1 tensors are missing: lm_head.weight")) << untied.failure();
  Golden wrapped("gemma3_wrapped");
  wrapped.config["text_config"]["tie_word_embeddings"] = false;
  EXPECT_TRUE(has(wrapped.failure(), "tie_word_embeddings stands twice")) << wrapped.failure();
}

// smollm2's files with a head beside the embedding it is tied to: a copy, with one byte more flipped if asked.
Result<Model> load_with_redundant_head(bool differs) {
  namespace fs = std::filesystem;
  const std::string source = std::string(FL_SOURCE_DIR) + "/tests/golden/data/smollm2";
  const fs::path directory = fs::path(testing::TempDir()) / ("redundant_head." + std::to_string(::getpid()));
  fs::create_directories(directory);
  fs::copy_file(source + "/config.json", directory / "config.json", fs::copy_options::overwrite_existing);
  const auto checkpoint = formats::Checkpoint::open(source).value();
  std::vector<formats::TensorPlan> plans;
  for (const auto& [name, record] : checkpoint.tensors()) plans.push_back({name, *record.dtype, record.shape});
  const auto* embedding = checkpoint.find("model.embed_tokens.weight");
  plans.push_back({"lm_head.weight", *embedding->dtype, embedding->shape});
  auto writer = formats::SafetensorsWriter::create(directory, plans, {}).value();
  for (const auto& [name, record] : checkpoint.tensors()) {
    EXPECT_TRUE(writer.append(name, checkpoint.bytes(record).value()).ok());
  }
  const auto bytes = checkpoint.bytes(*embedding).value();
  std::vector<std::byte> head(bytes.begin(), bytes.end());
  if (differs) head[5] ^= std::byte{1};
  EXPECT_TRUE(writer.append("lm_head.weight", head).ok());
  EXPECT_TRUE(writer.finish().ok());
  auto model = load_model(formats::Checkpoint::open(directory).value());
  fs::remove_all(directory);
  return model;
}

TEST(KnownTraps, ARedundantHeadThatDiffersIsWarnedOf) {
  const auto same = load_with_redundant_head(false);
  ASSERT_TRUE(same.ok()) << same.status().to_string();
  EXPECT_EQ(same->warnings.size(), 1u);
  const auto other = load_with_redundant_head(true);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  ASSERT_EQ(other->warnings.size(), 2u);
  EXPECT_TRUE(has(other->warnings[1], "lm_head.weight differs from model.embed_tokens.weight")) << other->warnings[1];
}

TEST(KnownTraps, HeadSizes) {
  Golden plain("llama");
  plain.config["head_dim"] = nullptr;
  EXPECT_TRUE(plain.load().ok()) << plain.failure();
  plain.config.erase("head_dim");
  EXPECT_TRUE(plain.load().ok()) << plain.failure();
  plain.config["head_dim"] = 16;
  EXPECT_TRUE(has(plain.failure(), "shape [32, 32], wanted [64, 32]")) << plain.failure();
  Golden apart("qwen3");
  apart.config.erase("head_dim");
  EXPECT_FALSE(apart.load().ok());  // the quotient is not this model's size of a head
}

TEST(KnownTraps, LayersAfterTheLastAreSkippedAndReported) {
  Golden golden("deepseek_v3");
  golden.config["num_nextn_predict_layers"] = 0;
  for (const char* name : {"model.layers.3.input_layernorm.weight", "model.layers.3.eh_proj.weight"}) {
    golden.headers.push_back({name, tensor::DType::kF32, {32}});
  }
  const auto model = golden.load();
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->warnings.size(), 1u);
  EXPECT_TRUE(model->coverage.tensors.waived.contains("model.layers.3.eh_proj.weight"));
  golden.headers.push_back({"model.layers.9.eh_proj.weight", tensor::DType::kF32, {32}});
  EXPECT_TRUE(has(golden.failure(), "unbound: model.layers.9.eh_proj.weight")) << golden.failure();
}

TEST(KnownTraps, WindowsFollowTheLayerTypes) {
  const auto model = Golden("gpt_oss").load();
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  std::vector<int64_t> windows;
  for (const ir::Node* node : nodes_of(model->graph, ops::OpKind::kAttend)) {
    windows.push_back(node->attributes.get_int("window"));
    EXPECT_EQ(node->operands.size(), 3u);  // with sinks
  }
  EXPECT_EQ(windows, (std::vector<int64_t>{8, 0, 8}));
  EXPECT_EQ(model->graph.states[0].kind, ops::StateKind::kWindowLog);
  EXPECT_EQ(model->graph.states[1].kind, ops::StateKind::kAppendLog);
  Golden odd("gpt_oss");
  odd.config["layer_types"][1] = "chunked_attention";
  EXPECT_TRUE(has(odd.failure(), "chunked_attention")) << odd.failure();
  odd.config["layer_types"] = Json::array({"full_attention"});
  EXPECT_TRUE(has(odd.failure(), "1 entries for 3 layers")) << odd.failure();
}

TEST(KnownTraps, LatentAttentionScalesTwiceAndHasItsOwnEps) {
  const auto model = Golden("deepseek_v3").load();  // factor 4, mscale_all_dim 1.2, heads of 12 + 8
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const double mscale = 0.1 * 1.2 * std::log(4.0) + 1;
  EXPECT_NEAR(nodes_of(model->graph, ops::OpKind::kAttend)[0]->attributes.get_float("scale"),
              mscale * mscale / std::sqrt(20.0), 1e-12);
  std::set<double> eps;
  for (const ir::Node* node : nodes_of(model->graph, ops::OpKind::kRmsNorm))
    eps.insert(node->attributes.get_float("eps"));
  EXPECT_EQ(eps, (std::set<double>{1e-6, 1e-3}));
}

TEST(KnownTraps, UnknownNamesStopTheLoad) {
  Golden golden("llama");
  golden.config["hidden_act"] = "silu2";
  EXPECT_TRUE(has(golden.failure(), "activation 'silu2' is not known"));
  golden = Golden("llama");
  golden.config["rope_parameters"]["rope_type"] = "spiral";
  EXPECT_TRUE(has(golden.failure(), "rope type 'spiral' is not known"));
  golden = Golden("llama");
  golden.config["rope_theta"] = 5e5;
  EXPECT_TRUE(has(golden.failure(), "contradict")) << golden.failure();
  golden = Golden("llama");
  golden.config["swiglu_limit"] = 7.0;
  EXPECT_TRUE(has(golden.failure(), "1 config keys are unknown: swiglu_limit")) << golden.failure();
  golden = Golden("gemma3");
  golden.config["attn_logit_softcapping"] = 50.0;
  EXPECT_TRUE(has(golden.failure(), "attn_logit_softcapping")) << golden.failure();
}

TEST(KnownTraps, OneSurplusTensorIsFatal) {
  Golden golden("llama");
  golden.headers.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", tensor::DType::kF32, {4}});
  EXPECT_TRUE(golden.load().ok()) << golden.failure();  // a derived buffer of old files is no weight
  golden.headers.push_back({"model.layers.0.self_attn.q_norm.weight", tensor::DType::kF32, {8}});
  EXPECT_TRUE(has(golden.failure(), "1 tensors are unbound: model.layers.0.self_attn.q_norm.weight"))
      << golden.failure();
}

}  // namespace
}  // namespace firstlight::intake
