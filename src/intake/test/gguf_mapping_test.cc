// SPDX-License-Identifier: Apache-2.0
// GGUF files in the words of Hugging Face (std/gguf.lua): small files of each mapped family, written here.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "formats/gguf_writer.h"
#include "intake/intake.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

using formats::GgufScalar;
using formats::GgufWriter;
using tensor::DType;

class GgufMapping : public testing::Test {
 protected:
  void TearDown() override { std::remove(path().c_str()); }

  static std::string path() {
    return (std::filesystem::temp_directory_path() /
            ("firstlight_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".gguf"))
        .string();
  }

  // Heads of 8 columns, 2 of them with 1 kv head; hidden 16, width 24, vocabulary 32.
  void begin(const std::string& architecture, uint32_t layers = 2) {
    architecture_ = architecture;
    writer_.set("general.architecture", architecture);
    writer_.set("general.name", std::string("a test"));
    key("block_count", layers);
    key("context_length", uint32_t{64});
    key("embedding_length", uint32_t{16});
    key("attention.head_count", uint32_t{2});
    key("attention.layer_norm_rms_epsilon", 1e-5F);
    writer_.set("tokenizer.ggml.eos_token_id", uint32_t{3});
    add("token_embd.weight", {32, 16});
    add("output_norm.weight", {16});
  }
  void key(const std::string& name, const GgufScalar& value) { writer_.set(architecture_ + "." + name, value); }
  void add(const std::string& name, std::vector<int64_t> shape, DType dtype = DType::kF32, float fill = 0.0F) {
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    const int64_t bytes = rows * *tensor::row_bytes(dtype, shape.back());
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    if (dtype == DType::kF32) {
      for (size_t i = 0; i + 4 <= data.size(); i += 4) std::memcpy(data.data() + i, &fill, 4);
    }
    FL_CHECK(writer_.add_tensor(name, dtype, std::move(shape), data).ok());
  }
  void attention(const std::string& l, bool bias, bool norms, bool norm_before = true) {
    if (norm_before) add(l + "attn_norm.weight", {16});
    add(l + "attn_q.weight", {16, 16});
    add(l + "attn_k.weight", {8, 16});
    add(l + "attn_v.weight", {8, 16});
    add(l + "attn_output.weight", {16, 16});
    if (bias) add(l + "attn_q.bias", {16});
    if (bias) add(l + "attn_k.bias", {8});
    if (bias) add(l + "attn_v.bias", {8});
    if (norms) add(l + "attn_q_norm.weight", {8});
    if (norms) add(l + "attn_k_norm.weight", {8});
  }
  void dense(const std::string& l, const std::string& suffix = "", int64_t width = 24) {
    add(l + "ffn_gate" + suffix + ".weight", {width, 16});
    add(l + "ffn_up" + suffix + ".weight", {width, 16});
    add(l + "ffn_down" + suffix + ".weight", {16, width});
  }
  void stacked(const std::string& l, int64_t experts, int64_t width) {
    add(l + "ffn_gate_inp.weight", {experts, 16});
    add(l + "ffn_gate_exps.weight", {experts, width, 16});
    add(l + "ffn_up_exps.weight", {experts, width, 16});
    add(l + "ffn_down_exps.weight", {experts, 16, width});
  }
  static std::string layer(int i) { return "blk." + std::to_string(i) + "."; }

  Result<Model> load() {
    FL_CHECK(writer_.write(path()).ok());
    const auto checkpoint = FL_TRY(formats::Checkpoint::open(path()));
    return load_model(checkpoint);
  }
  // Loads, expects full coverage, returns the graph's text.
  std::string text() {
    const auto model = load();
    if (!model.ok()) return model.status().to_string();
    EXPECT_TRUE(model->tokens.eos.contains(3));
    return ir::print(model->graph);
  }

  std::string architecture_;
  GgufWriter writer_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(GgufMapping, LlamaRowsArePutBackAndRopeDivisorsRead) {
  begin("llama");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 10000.0F);
  key("rope.dimension_count", uint32_t{8});
  key("vocab_size", uint32_t{32});
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, false);
    add(layer(i) + "ffn_norm.weight", {16});
    dense(layer(i));
  }
  add("rope_freqs.weight", {4}, DType::kF32, 2.0F);
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "@model.layers.1.self_attn.q_proj.weight : f32[16, 16] from \"blk.1.attn_q.weight\""))
      << graph;
  EXPECT_TRUE(has(graph, "shape = \"2,4,2,16\"")) << graph;
  EXPECT_TRUE(has(graph, "shape = \"1,4,2,16\"")) << graph;
  EXPECT_TRUE(has(graph, "freqs = [0.5, 0.05")) << graph;
}

TEST_F(GgufMapping, Qwen2HasBiasesAndNoPermutation) {
  begin("qwen2");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 1e6F);
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), true, false);
    add(layer(i) + "ffn_norm.weight", {16});
    dense(layer(i));
  }
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "from \"output.weight\"")) << graph;
  EXPECT_FALSE(has(graph, "transpose")) << graph;
}

TEST_F(GgufMapping, Qwen3AndItsExperts) {
  begin("qwen3moe");
  key("attention.head_count_kv", uint32_t{1});
  key("attention.key_length", uint32_t{8});
  key("attention.value_length", uint32_t{8});
  key("rope.freq_base", 1e6F);
  key("expert_count", uint32_t{4});
  key("expert_used_count", uint32_t{2});
  key("expert_feed_forward_length", uint32_t{12});
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, true);
    add(layer(i) + "ffn_norm.weight", {16});
    stacked(layer(i), 4, 12);
  }
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "per_expert")) << graph;
  EXPECT_TRUE(has(graph, "from \"blk.0.ffn_down_exps.weight\"")) << graph;
}

TEST_F(GgufMapping, Gemma3NormsLoseTheirOne) {
  begin("gemma3", 6);  // the sixth is full
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("attention.key_length", uint32_t{8});
  key("attention.value_length", uint32_t{8});
  key("attention.sliding_window", uint32_t{4});
  key("rope.freq_base", 1e6F);
  for (int i = 0; i < 6; ++i) {
    attention(layer(i), false, true);
    for (const char* norm : {"post_attention_norm", "ffn_norm", "post_ffw_norm"})
      add(layer(i) + norm + ".weight", {16});
    dense(layer(i));
  }
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "sub(x0, 1.0)")) << graph;
  EXPECT_TRUE(has(graph, "offset = 1.0")) << graph;
  EXPECT_TRUE(has(graph, "window = 4")) << graph;
}

TEST_F(GgufMapping, GptOssHasItsExpertsApart) {
  begin("gpt-oss");
  key("attention.head_count_kv", uint32_t{1});
  key("attention.key_length", uint32_t{8});
  key("attention.value_length", uint32_t{8});
  key("attention.sliding_window", uint32_t{4});
  key("feed_forward_length", uint32_t{32});
  key("rope.freq_base", 150000.0F);
  key("rope.scaling.type", std::string("yarn"));
  key("rope.scaling.factor", 32.0F);
  key("rope.scaling.original_context_length", uint32_t{16});
  key("expert_count", uint32_t{2});
  key("expert_used_count", uint32_t{1});
  key("expert_feed_forward_length", uint32_t{32});
  for (int i = 0; i < 2; ++i) {
    const std::string l = layer(i);
    attention(l, true, false);
    add(l + "attn_output.bias", {16});
    add(l + "attn_sinks.weight", {2});
    add(l + "post_attention_norm.weight", {16});
    add(l + "ffn_gate_inp.weight", {2, 16});
    add(l + "ffn_gate_inp.bias", {2});
    for (const char* part : {"gate", "up"}) {
      add(l + "ffn_" + part + "_exps.weight", {2, 32, 16});
      add(l + "ffn_" + part + "_exps.bias", {2, 32});
    }
    add(l + "ffn_down_exps.weight", {2, 16, 32}, DType::kMXFP4);
    add(l + "ffn_down_exps.bias", {2, 16});
  }
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "mxfp4[2, 16, 32]")) << graph;
  EXPECT_TRUE(has(graph, "from \"blk.1.attn_sinks.weight\"")) << graph;
}

TEST_F(GgufMapping, MixtralIsALlamaWithExperts) {
  begin("llama");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 1e6F);
  key("rope.dimension_count", uint32_t{8});
  key("expert_count", uint32_t{4});
  key("expert_used_count", uint32_t{2});
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, false);
    add(layer(i) + "ffn_norm.weight", {16});
    stacked(layer(i), 4, 24);
  }
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "per_expert")) << graph;
  EXPECT_TRUE(has(graph, "from \"blk.1.ffn_gate_exps.weight\"")) << graph;
  EXPECT_TRUE(has(graph, "shape = \"2,4,2,16\"")) << graph;
}

TEST_F(GgufMapping, Gemma2HasSoftCapsAndWindows) {
  begin("gemma2", 2);
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("attention.key_length", uint32_t{8});
  key("attention.value_length", uint32_t{8});
  key("attention.sliding_window", uint32_t{4});
  key("attn_logit_softcapping", 50.0F);
  key("final_logit_softcapping", 30.0F);
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, false);
    for (const char* norm : {"post_attention_norm", "ffn_norm", "post_ffw_norm"})
      add(layer(i) + norm + ".weight", {16});
    dense(layer(i));
  }
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "sub(x0, 1.0)")) << graph;
  EXPECT_TRUE(has(graph, "mul(50.0, tanh(div(x0, 50.0)))")) << graph;
  EXPECT_TRUE(has(graph, "window = 4")) << graph;
}

TEST_F(GgufMapping, Phi3HasFusedMatricesAndTwoSetsOfDivisors) {
  begin("phi3");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("attention.sliding_window", uint32_t{6});
  key("rope.freq_base", 10000.0F);
  key("rope.dimension_count", uint32_t{6});
  key("rope.scaling.original_context_length", uint32_t{32});
  key("rope.scaling.attn_factor", 1.25F);
  for (int i = 0; i < 2; ++i) {
    add(layer(i) + "attn_norm.weight", {16});
    add(layer(i) + "attn_qkv.weight", {32, 16});
    add(layer(i) + "attn_output.weight", {16, 16});
    add(layer(i) + "ffn_norm.weight", {16});
    add(layer(i) + "ffn_up.weight", {48, 16});
    add(layer(i) + "ffn_down.weight", {16, 24});
  }
  add("rope_factors_short.weight", {3}, DType::kF32, 1.0F);
  add("rope_factors_long.weight", {3}, DType::kF32, 2.0F);
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "switch_length = 32")) << graph;
  EXPECT_TRUE(has(graph, "scale = 1.25")) << graph;
  EXPECT_TRUE(has(graph, "from \"blk.1.ffn_up.weight\"")) << graph;
}

TEST_F(GgufMapping, Olmo2HasItsNormsBehind) {
  begin("olmo2");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 500000.0F);
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, false, false);
    add(layer(i) + "attn_q_norm.weight", {16});
    add(layer(i) + "attn_k_norm.weight", {8});
    dense(layer(i));
    for (const char* norm : {"post_attention_norm", "post_ffw_norm"}) add(layer(i) + norm + ".weight", {16});
  }
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "from \"blk.1.post_ffw_norm.weight\"")) << graph;
  EXPECT_FALSE(has(graph, "transpose")) << graph;
}

TEST_F(GgufMapping, GraniteHasFourFactors) {
  begin("granite");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 500000.0F);
  key("attention.scale", 0.25F);
  key("embedding_scale", 12.0F);
  key("residual_scale", 0.5F);
  key("logit_scale", 8.0F);
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, false);
    add(layer(i) + "ffn_norm.weight", {16});
    dense(layer(i));
  }
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "scale = 0.25")) << graph;
  EXPECT_TRUE(has(graph, "mul(x0, 12.0)")) << graph;
  EXPECT_TRUE(has(graph, "div(x0, 8.0)")) << graph;
  EXPECT_TRUE(has(graph, "shape = \"2,4,2,16\"")) << graph;
}

TEST_F(GgufMapping, SmolLM3LeavesEveryFourthLayerWithoutPositions) {
  begin("smollm3", 4);
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 5e6F);
  key("rope.dimension_count", uint32_t{8});
  key("vocab_size", uint32_t{32});
  for (int i = 0; i < 4; ++i) {
    attention(layer(i), false, false);
    add(layer(i) + "ffn_norm.weight", {16});
    dense(layer(i));
  }
  const std::string graph = text();
  size_t turns = 0;
  for (size_t at = graph.find(" = rope "); at != std::string::npos; at = graph.find(" = rope ", at + 1)) ++turns;
  EXPECT_EQ(turns, 6u) << graph;
}

TEST_F(GgufMapping, Glm4MoeLeavesItsPredictionLayerOut) {
  begin("glm4moe", 3);
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("attention.key_length", uint32_t{8});
  key("attention.value_length", uint32_t{8});
  key("rope.freq_base", 1e6F);
  key("rope.dimension_count", uint32_t{4});
  key("expert_count", uint32_t{4});
  key("expert_used_count", uint32_t{2});
  key("expert_shared_count", uint32_t{1});
  key("expert_feed_forward_length", uint32_t{12});
  key("expert_gating_func", uint32_t{2});
  key("expert_weights_norm", true);
  key("expert_weights_scale", 2.5F);
  key("leading_dense_block_count", uint32_t{1});
  key("nextn_predict_layers", uint32_t{1});
  for (int i = 0; i < 3; ++i) {
    attention(layer(i), true, true);
    add(layer(i) + "post_attention_norm.weight", {16});
    if (i == 0) dense(layer(i));
    if (i == 0) continue;
    stacked(layer(i), 4, 12);
    add(layer(i) + "exp_probs_b.bias", {4});
    dense(layer(i), "_shexp", 12);
  }
  add("blk.2.nextn.eh_proj.weight", {16, 32});
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "from \"blk.1.exp_probs_b.bias\"")) << graph;
  EXPECT_FALSE(has(graph, "blk.2.")) << graph;
}

TEST_F(GgufMapping, DeepseekSplitsItsKeyAndValueParts) {
  begin("deepseek2");
  key("attention.head_count_kv", uint32_t{1});
  key("feed_forward_length", uint32_t{24});
  key("attention.q_lora_rank", uint32_t{10});
  key("attention.kv_lora_rank", uint32_t{12});
  key("attention.key_length", uint32_t{16});
  key("attention.value_length", uint32_t{12});
  key("attention.key_length_mla", uint32_t{8});
  key("attention.value_length_mla", uint32_t{6});
  key("rope.dimension_count", uint32_t{4});
  key("rope.freq_base", 10000.0F);
  key("expert_count", uint32_t{4});
  key("expert_used_count", uint32_t{2});
  key("expert_shared_count", uint32_t{1});
  key("expert_feed_forward_length", uint32_t{12});
  key("expert_gating_func", uint32_t{2});
  key("expert_weights_norm", true);
  key("expert_weights_scale", 2.5F);
  key("leading_dense_block_count", uint32_t{1});
  for (int i = 0; i < 2; ++i) {
    const std::string l = layer(i);
    add(l + "attn_norm.weight", {16});
    add(l + "attn_q_a.weight", {10, 16});
    add(l + "attn_q_a_norm.weight", {10});
    add(l + "attn_q_b.weight", {16, 10});
    add(l + "attn_kv_a_mqa.weight", {16, 16});
    add(l + "attn_kv_a_norm.weight", {12});
    add(l + "attn_k_b.weight", {2, 12, 4});
    add(l + "attn_v_b.weight", {2, 6, 12});
    add(l + "attn_output.weight", {16, 12});
    add(l + "ffn_norm.weight", {16});
  }
  dense(layer(0));
  stacked(layer(1), 4, 12);
  add(layer(1) + "exp_probs_b.bias", {4});
  dense(layer(1), "_shexp", 12);
  add("output.weight", {32, 16});
  const std::string graph = text();
  EXPECT_TRUE(has(graph, "from \"blk.1.exp_probs_b.bias\"")) << graph;
  EXPECT_TRUE(has(graph, "value_width = 12")) << graph;
}

TEST_F(GgufMapping, UnknownFamiliesKeysAndTensorsAreRefused) {
  begin("llama");
  key("feed_forward_length", uint32_t{24});
  key("attention.head_count_kv", uint32_t{1});
  key("rope.freq_base", 10000.0F);
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, false);
    add(layer(i) + "ffn_norm.weight", {16});
    dense(layer(i));
  }
  ASSERT_TRUE(load().ok()) << load().status().to_string();
  key("attention.new_idea", uint32_t{1});
  add("blk.0.surprise.weight", {4});
  const auto model = load();
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(has(model.status().message(), "llama.attention.new_idea")) << model.status().message();
  EXPECT_TRUE(has(model.status().message(), "blk.0.surprise.weight"));
}

TEST_F(GgufMapping, UnknownArchitectureIsNamed) {
  begin("mamba9");
  EXPECT_EQ(load().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(has(load().status().message(), "mamba9"));
}

TEST(GgufShared, Stories260KIsOneModelInBothForms) {
  const std::string root = std::string(FL_SOURCE_DIR) + "/../shared/data/checkpoints/stories260K/";
  if (!std::filesystem::exists(root + "hf")) GTEST_SKIP() << "needs shared data: checkpoints/stories260K";
  const auto hf = load_model(formats::Checkpoint::open(root + "hf").value());
  const auto gguf = load_model(formats::Checkpoint::open(root + "stories260K-f32.gguf").value());
  ASSERT_TRUE(hf.ok()) << hf.status().to_string();
  ASSERT_TRUE(gguf.ok()) << gguf.status().to_string();
  EXPECT_EQ(hf->graph.states, gguf->graph.states);
  EXPECT_EQ(hf->max_positions, gguf->max_positions);
}

// What tests/golden/gguf does not show: a list that contradicts the tensors.
TEST_F(GgufMapping, KindsOfLayersMustAgreeWithTheirTensors) {
  begin("lfm2", 1);
  writer_.set_array("lfm2.attention.head_count_kv", std::vector<uint32_t>{1});
  key("feed_forward_length", uint32_t{24});
  key("rope.freq_base", 1e6F);
  key("shortconv.l_cache", uint32_t{3});
  const std::string l = layer(0);
  for (const char* norm : {"attn_norm", "ffn_norm"}) add(l + norm + ".weight", {16});
  add("token_embd_norm.weight", {16});
  add(l + "shortconv.in_proj.weight", {48, 16});
  add(l + "shortconv.conv.weight", {16, 3});
  add(l + "shortconv.out_proj.weight", {16, 16});
  dense(l);
  const auto model = load();
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(has(model.status().to_string(), "attention.head_count_kv of layer 0 contradicts its tensors"))
      << model.status().to_string();
}

}  // namespace
}  // namespace firstlight::intake
