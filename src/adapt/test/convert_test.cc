// SPDX-License-Identifier: Apache-2.0
// convert: small GGUF files of each family, written here with random weights, give the same logits before and after;
// the trained mini checkpoint equals its released form bit for bit; vocabularies come back as the same tokenizers.
#include "adapt/convert.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "adapt/bring_up.h"
#include "base/file_map.h"
#include "base/json.h"
#include "engine/scorer.h"
#include "formats/gguf_writer.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;
using formats::GgufScalar;
using formats::GgufWriter;

std::string shared(const std::string& name) { return std::string(FL_SOURCE_DIR) + "/../shared/data/" + name; }

class Convert : public testing::Test {
 protected:
  Convert() {
    folder_ = fs::temp_directory_path() / ("firstlight-convert-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~Convert() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Two heads of 8 columns over one kv head; hidden 32, width 64, vocabulary 40.
  void begin(const std::string& architecture, uint32_t layers = 2) {
    architecture_ = architecture;
    writer_.set("general.architecture", architecture);
    key("block_count", layers);
    key("context_length", uint32_t{64});
    key("embedding_length", uint32_t{32});
    key("attention.head_count", uint32_t{2});
    key("attention.layer_norm_rms_epsilon", 1e-5F);
    writer_.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer_.set("tokenizer.ggml.eos_token_id", uint32_t{3});
    add("token_embd.weight", {40, 32});
    add("output_norm.weight", {32});
  }
  void key(const std::string& name, const GgufScalar& value) { writer_.set(architecture_ + "." + name, value); }
  void add(const std::string& name, std::vector<int64_t> shape, float scale = 0.3F) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<float> values(static_cast<size_t>(count));
    std::normal_distribution<float> normal(shape.size() == 1 ? 1.0F : 0.0F, scale);
    for (float& value : values) value = normal(random_);
    add_values(name, std::move(shape), values);
  }
  void add_values(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
    ASSERT_TRUE(writer_.add_tensor(name, tensor::DType::kF32, std::move(shape), std::as_bytes(std::span(values))).ok());
  }
  void attention(const std::string& l, bool bias, bool norms) {
    key_value_heads();
    add(l + "attn_norm.weight", {32});
    for (const auto& [name, rows] : {std::pair("attn_q", 16), {"attn_k", 8}, {"attn_v", 8}}) {
      add(l + name + ".weight", {rows, 32});
      if (bias) add(l + name + ".bias", {rows});
    }
    add(l + "attn_output.weight", {32, 16});
    if (norms) add(l + "attn_q_norm.weight", {8});
    if (norms) add(l + "attn_k_norm.weight", {8});
  }
  void key_value_heads() {
    if (heads_known_) return;
    heads_known_ = true;
    key("attention.head_count_kv", uint32_t{1});
    key("attention.key_length", uint32_t{8});
    key("attention.value_length", uint32_t{8});
  }
  void dense(const std::string& l) {
    key_width();
    add(l + "ffn_norm.weight", {32});
    add(l + "ffn_gate.weight", {64, 32});
    add(l + "ffn_up.weight", {64, 32});
    add(l + "ffn_down.weight", {32, 64});
  }
  void key_width() {
    if (!width_known_) key("feed_forward_length", uint32_t{64});
    width_known_ = true;
  }
  void stacked(const std::string& l, int64_t experts, int64_t width) {
    add(l + "ffn_gate_inp.weight", {experts, 32}, 1.0F);
    add(l + "ffn_gate_exps.weight", {experts, width, 32});
    add(l + "ffn_up_exps.weight", {experts, width, 32});
    add(l + "ffn_down_exps.weight", {experts, 32, width});
  }
  static std::string layer(int i) { return "blk." + std::to_string(i) + "."; }
  void llama(float theta = 10000.0F) {
    begin("llama");
    key("rope.freq_base", theta);
    key("rope.dimension_count", uint32_t{8});
    for (int i = 0; i < 2; ++i) {
      attention(layer(i), false, false);
      dense(layer(i));
    }
  }
  std::string written() {
    EXPECT_TRUE(writer_.write(path("model.gguf")).ok());
    return path("model.gguf");
  }

  static std::vector<float> logits(const std::string& model) {
    auto loaded = bring_up(model, {.backend = catalog::Backend::kReference, .num_threads = 1, .buckets = {{8, 8}}});
    EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
    if (!loaded.ok()) return {};
    const std::vector<int32_t> tokens = {1, 5, 39, 0, 7, 7, 22, 13};
    std::vector<float> all;
    const auto keep = [&](int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); };
    const Status status = engine::score(*(*loaded)->executor, tokens, {}, keep);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return all;
  }

  Json config() const { return *parse_json(*read_text_file(path("out/config.json"))); }
  // Converts to float32 and expects both forms to give the same logits.
  Conversion expect_same_logits(const ConvertOptions& options = {.dtype = tensor::DType::kF32}) {
    const std::string file = written();
    const auto result = convert(file, path("out"), options);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    if (!result.ok()) return {};
    const auto before = logits(file), after = logits(path("out"));
    EXPECT_EQ(before.size(), after.size());
    EXPECT_FALSE(before.empty());
    for (size_t i = 0; i < before.size() && i < after.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-5) << i;
    return *result;
  }
  bool has(const Conversion& result, const std::string& name) const {
    return std::any_of(result.tensors.begin(), result.tensors.end(), [&](const auto& t) { return t.name == name; });
  }

  fs::path folder_;
  GgufWriter writer_;
  std::string architecture_;
  std::mt19937 random_{7};
  bool heads_known_ = false, width_known_ = false;
};

TEST_F(Convert, LlamaWithRepeatedHeadAndScaledRope) {
  llama(1e6F);
  const auto divisor = [](double i) {  // Llama 3.1's scaling, heads of 8
    const double turns = 8192 * std::pow(1e6, -2 * i / 8) / (2 * M_PI);
    const double smooth = (turns - 1) / 3;
    return static_cast<float>(turns < 1 ? 8 : turns > 4 ? 1 : 1 / ((1 - smooth) / 8 + smooth));
  };
  add_values("rope_freqs.weight", {4}, {divisor(0), divisor(1), divisor(2), divisor(3)});
  random_.seed(7);
  add("output.weight", {40, 32});  // the same random numbers as the embedding
  const Conversion result = expect_same_logits();
  EXPECT_FALSE(has(result, "lm_head.weight"));
  EXPECT_TRUE(config()["tie_word_embeddings"].get<bool>());
  EXPECT_EQ(config()["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(config()["rope_scaling"]["factor"], 8.0);
  EXPECT_EQ(config()["architectures"][0], "LlamaForCausalLM");
}

TEST_F(Convert, OtherRopeDivisorsAndHeadStayAndAreReported) {
  llama();
  add_values("rope_freqs.weight", {4}, {1.0F, 2.0F, 3.0F, 4.0F});
  add("output.weight", {40, 32});
  const Conversion result = expect_same_logits();
  EXPECT_TRUE(has(result, "lm_head.weight"));
  EXPECT_TRUE(std::any_of(result.warnings.begin(), result.warnings.end(),
                          [](const std::string& text) { return text.find("divisors") != std::string::npos; }));
}

TEST_F(Convert, Gemma3NormsLoseTheirOne) {
  begin("gemma3", 6);  // the last layer sees everything
  key("attention.sliding_window", uint32_t{4});
  key("rope.freq_base", 1e6F);
  for (int i = 0; i < 6; ++i) {
    attention(layer(i), false, true);
    dense(layer(i));
    add(layer(i) + "post_attention_norm.weight", {32});
    add(layer(i) + "post_ffw_norm.weight", {32});
  }
  expect_same_logits();
  EXPECT_EQ(config()["rope_theta"], 1e6);
  EXPECT_EQ(config()["rope_local_base_freq"], 1e4);
}

TEST_F(Convert, Qwen3ExpertsBecomeTensorsOfTheirOwn) {
  begin("qwen3moe");
  key("rope.freq_base", 1e6F);
  key("expert_count", uint32_t{4});
  key("expert_used_count", uint32_t{2});
  key("expert_feed_forward_length", uint32_t{12});
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), false, true);
    add(layer(i) + "ffn_norm.weight", {32});
    stacked(layer(i), 4, 12);
  }
  const Conversion result = expect_same_logits();
  EXPECT_TRUE(has(result, "model.layers.1.mlp.experts.3.down_proj.weight"));
}

TEST_F(Convert, GptOssExpertsAreJoined) {
  begin("gpt-oss");
  key("rope.freq_base", 150000.0F);
  key("expert_count", uint32_t{4});
  key("expert_used_count", uint32_t{2});
  key("expert_feed_forward_length", uint32_t{64});
  key("attention.sliding_window", uint32_t{4});
  key("rope.scaling.type", std::string("yarn"));
  key("rope.scaling.factor", 4.0F);
  key("rope.scaling.original_context_length", uint32_t{4096});
  for (int i = 0; i < 2; ++i) {
    attention(layer(i), true, false);
    add(layer(i) + "attn_output.bias", {32});
    add(layer(i) + "attn_sinks.weight", {2});
    add(layer(i) + "post_attention_norm.weight", {32});
    stacked(layer(i), 4, 64);
    add(layer(i) + "ffn_gate_inp.bias", {4});
    add(layer(i) + "ffn_gate_exps.bias", {4, 64});
    add(layer(i) + "ffn_up_exps.bias", {4, 64});
    add(layer(i) + "ffn_down_exps.bias", {4, 32});
  }
  add("output.weight", {40, 32});
  const Conversion result = expect_same_logits();
  EXPECT_TRUE(has(result, "model.layers.0.mlp.experts.gate_up_proj"));
  EXPECT_FALSE(has(result, "model.layers.0.mlp.experts.gate_proj"));
}

TEST_F(Convert, DeepSeekKeyAndValuePartsAreJoined) {
  begin("deepseek2");
  heads_known_ = true;
  for (const auto& [name, value] : {std::pair("attention.head_count_kv", 1U),
                                    {"attention.kv_lora_rank", 16U},
                                    {"attention.key_length", 20U},
                                    {"attention.value_length", 16U},
                                    {"attention.key_length_mla", 12U},
                                    {"attention.value_length_mla", 8U},
                                    {"rope.dimension_count", 4U},
                                    {"expert_count", 4U},
                                    {"expert_used_count", 2U},
                                    {"expert_shared_count", 1U},
                                    {"expert_feed_forward_length", 12U},
                                    {"leading_dense_block_count", 1U},
                                    {"expert_gating_func", 2U}}) {
    key(name, uint32_t{value});
  }
  key("rope.freq_base", 10000.0F);
  key("expert_weights_scale", 2.5F);
  key("expert_weights_norm", true);
  for (int i = 0; i < 2; ++i) {
    const std::string l = layer(i);
    add(l + "attn_norm.weight", {32});
    add(l + "attn_q.weight", {24, 32});
    add(l + "attn_kv_a_mqa.weight", {20, 32});
    add(l + "attn_kv_a_norm.weight", {16});
    add(l + "attn_k_b.weight", {2, 16, 8});
    add(l + "attn_v_b.weight", {2, 8, 16});
    add(l + "attn_output.weight", {32, 16});
  }
  dense(layer(0));
  add(layer(1) + "ffn_norm.weight", {32});
  stacked(layer(1), 4, 12);
  add(layer(1) + "exp_probs_b.bias", {4});
  add(layer(1) + "ffn_gate_shexp.weight", {12, 32});
  add(layer(1) + "ffn_up_shexp.weight", {12, 32});
  add(layer(1) + "ffn_down_shexp.weight", {32, 12});
  add("output.weight", {40, 32});
  const Conversion result = expect_same_logits();
  EXPECT_TRUE(has(result, "model.layers.1.self_attn.kv_b_proj.weight"));
  EXPECT_FALSE(has(result, "model.layers.1.self_attn.k_b_proj.weight"));
  EXPECT_TRUE(config()["q_lora_rank"].is_null()) << "the reference's default is a rank";
}

TEST_F(Convert, ErrorsAreOfTheRoundingAndShardsHaveAnIndex) {
  llama();
  std::vector<float> head(size_t{40} * 32, 1.0F);
  head[5] = 1.0F + 1.0F / 512;  // bf16 steps by 1/128 here: down to 1
  head[9] = -2.0F;
  add_values("output.weight", {40, 32}, head);
  const auto result = convert(written(), path("out"), {.dtype = tensor::DType::kBF16, .max_shard_bytes = 8192});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const auto found = std::find_if(result->tensors.begin(), result->tensors.end(),
                                  [](const auto& tensor) { return tensor.name == "lm_head.weight"; });
  ASSERT_NE(found, result->tensors.end());
  EXPECT_DOUBLE_EQ(found->error, 1.0 / 512 / 2);
  EXPECT_TRUE(fs::exists(path("out/model.safetensors.index.json")));
  EXPECT_FALSE(fs::exists(path("out/model.safetensors")));
  EXPECT_EQ(config()["torch_dtype"], "bfloat16");
  EXPECT_FALSE(logits(path("out")).empty());
}

TEST_F(Convert, RefusalsLeaveNothingBehind) {
  llama();
  std::vector<float> head(size_t{40} * 32, 1.0F);
  head[77] = 70000.0F;
  add_values("output.weight", {40, 32}, head);
  const std::string file = written();
  const auto beyond = convert(file, path("half"), {.dtype = tensor::DType::kF16});
  EXPECT_EQ(beyond.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(beyond.status().message().find("lm_head.weight"), std::string::npos) << beyond.status().to_string();
  EXPECT_FALSE(fs::exists(path("half")));

  const auto full = convert(file, folder_.string(), {});
  EXPECT_EQ(full.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(full.status().message().find("not empty"), std::string::npos);
  EXPECT_EQ(convert(file, path("x"), {.dtype = tensor::DType::kQ8_0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(convert(path("absent.gguf"), path("x"), {}).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path("x")));
  EXPECT_EQ(convert(file, file + "/out", {}).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(convert(file, path("good"), {}).ok());
  EXPECT_EQ(convert(path("good"), path("again"), {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Convert, Stories260KEqualsItsReleasedForm) {
  const std::string file = shared("checkpoints/stories260K/stories260K-f32.gguf");
  if (!fs::exists(file)) GTEST_SKIP() << "needs shared data: checkpoints/stories260K";
  const auto result = convert(file, path("out"), {.dtype = tensor::DType::kF32});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_TRUE(result->warnings.empty());
  EXPECT_TRUE(fs::exists(path("out/tokenizer.json")));
  const auto wanted = formats::Checkpoint::open(shared("checkpoints/stories260K/hf"));
  const auto found = formats::Checkpoint::open(path("out"));
  ASSERT_TRUE(wanted.ok() && found.ok());
  ASSERT_EQ(wanted->tensors().size(), found->tensors().size());
  for (const auto& [name, record] : wanted->tensors()) {
    const formats::TensorRecord* ours = found->find(name);
    ASSERT_NE(ours, nullptr) << name;
    EXPECT_EQ(ours->shape, record.shape) << name;
    const auto a = *wanted->bytes(record), b = *found->bytes(*ours);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << name;
  }
}

}  // namespace
}  // namespace firstlight::adapt
