// SPDX-License-Identifier: Apache-2.0
// Twins of golden checkpoints and of configs written here: they load, run, depend on the seed alone, and slices are the
// corners of the original's tensors. Their logits against the original code: tests/golden/check_twins.py.
#include "adapt/twin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "adapt/bring_up.h"
#include "base/file_map.h"
#include "engine/scorer.h"
#include "tensor/codec.h"
#include "text/tokenizer.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;

const char* const kConfig =
    R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048,
  "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
  "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [],
  "num_hidden_layers": 48, "rms_norm_eps": 1e-6, "hidden_act": "silu", "vocab_size": 151936, "max_position_embeddings": 40960,
  "rope_theta": 1000000.0, "bos_token_id": 151643, "eos_token_id": [151645, 151643], "tie_word_embeddings": false,
  "torch_dtype": "float16", "auto_map": {"AutoModel": "code.Model"}})";

class TwinTest : public testing::Test {
 protected:
  TwinTest() : folder_(fs::temp_directory_path() / ("firstlight-twin-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "model");
    EXPECT_TRUE(write_file(path("model/config.json"), kConfig).ok());
  }
  ~TwinTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Twin made(const std::string& source, const std::string& name, const TwinOptions& options = {}) {
    auto twin = make_twin(source, path(name), options);
    EXPECT_TRUE(twin.ok()) << twin.status().to_string();
    return twin.ok() ? std::move(*twin) : Twin{};
  }
  std::string weights(const std::string& name) const { return *read_text_file(path(name) + "/model.safetensors"); }

  fs::path folder_;
};

TEST_F(TwinTest, LoadsAndRuns) {
  const Twin twin = made(path("model"), "a");
  EXPECT_EQ(twin.shrunk.features.num_layers, 2);
  EXPECT_LT(twin.num_weights, 200'000);
  ASSERT_EQ(twin.routers.size(), 1u);
  EXPECT_TRUE(twin.routers[0].starts_with("top 2 of ")) << twin.routers[0];
  auto loaded = bring_up(path("a"), {.backend = catalog::Backend::kReference, .num_threads = 1, .buckets = {{64, 64}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  std::vector<int32_t> tokens(static_cast<size_t>(twin.prompt));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 256);
  double most = 0;
  ASSERT_TRUE(engine::score(*(*loaded)->executor, tokens, {}, [&](int64_t, std::span<const float> row) {
                for (const float value : row) most = std::max(most, std::abs(static_cast<double>(value)));
              }).ok());
  EXPECT_GT(most, 0.1);
  EXPECT_TRUE(std::isfinite(most));
  EXPECT_EQ((*loaded)->model.tokens.eos.begin()->first, 257) << "the small tokenizer's";
  const auto tokenizer = text::load_tokenizer(path("a"));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->eos_id(), 257);
  const std::string config = *read_text_file(path("a/config.json"));
  EXPECT_NE(config.find("\"torch_dtype\": \"bfloat16\""), std::string::npos);
  EXPECT_EQ(config.find("auto_map"), std::string::npos);
}

TEST_F(TwinTest, WeightsDependOnTheSeedAlone) {
  made(path("model"), "a", {.seed = 3});
  made(path("model"), "b", {.seed = 3});
  made(path("model"), "c", {.seed = 4});
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_NE(weights("a"), weights("c"));
  EXPECT_EQ(weights("a").size(), weights("c").size());
}

TEST_F(TwinTest, SlicesOfTheModelsOwnWeights) {
  const std::string model = std::string(FL_SOURCE_DIR) + "/tests/golden/data/glm4_moe";
  const Twin twin = made(model, "a", {.from_weights = true});
  const auto small = formats::Checkpoint::open(path("a")), large = formats::Checkpoint::open(model);
  int64_t corners = 0;
  for (const auto& [name, record] : small->tensors()) {
    const std::string layer = intake::layer_of(name);
    const std::string from = layer.empty() ? name : twin.shrunk.layers.at(layer) + name.substr(layer.size());
    const formats::TensorRecord* whole = large->find(from);
    ASSERT_NE(whole, nullptr) << from;
    std::vector<float> few(static_cast<size_t>(record.num_elements())), all(static_cast<size_t>(whole->num_elements()));
    ASSERT_TRUE(tensor::decode_to_f32(*record.dtype, *small->bytes(record), few).ok());
    ASSERT_TRUE(tensor::decode_to_f32(*whole->dtype, *large->bytes(*whole), all).ok());
    const size_t columns = static_cast<size_t>(record.shape.back()), stride = static_cast<size_t>(whole->shape.back());
    corners += record.shape != whole->shape ? 1 : 0;
    for (size_t i = 0; i < few.size(); ++i) {
      const float wanted = tensor::bf16_to_f32(tensor::f32_to_bf16(all[i / columns * stride + i % columns]));
      ASSERT_EQ(few[i], wanted) << name << " " << i;
    }
  }
  EXPECT_GT(corners, 0) << "something is smaller than the original";
}

TEST_F(TwinTest, InfinityStaysInTheConfig) {
  std::string config = kConfig;
  config.replace(config.find("\"rms_norm_eps\""), 0, "\"pretraining_tp\": Infinity, ");
  ASSERT_TRUE(write_file(path("model/config.json"), config).ok());
  made(path("model"), "a");
  EXPECT_NE(read_text_file(path("a/config.json"))->find("\"__float__\": \"Infinity\""), std::string::npos);
}

TEST_F(TwinTest, CopiesTheModelsTokenizer) {
  const fs::path tiny = fs::path(FL_SOURCE_DIR) / "tests/golden/tokenizers/tiny/byte-level.json";
  ASSERT_TRUE(fs::exists(tiny));
  fs::copy_file(tiny, path("model/tokenizer.json"));
  const auto own = text::load_tokenizer(path("model"));
  ASSERT_TRUE(own.ok());
  const Twin twin = made(path("model"), "a");
  EXPECT_GE(twin.shrunk.features.logits_width, own->vocab_size());
  EXPECT_EQ(*read_text_file(path("a/tokenizer.json")), *read_text_file(tiny.string()));
}

// Of a head of 16 a quarter turns: of one of 8 a single pair would, whose frequency is 1 whatever the base.
TEST_F(TwinTest, ARopeKeepsMoreThanOneFrequencyBesideColumnsThatDoNotTurn) {
  made((fs::path(FL_SOURCE_DIR) / "tests/golden/data/gemma4/config.json").string(), "a");
}

TEST_F(TwinTest, Refusals) {
  EXPECT_NE(make_twin(path("x.gguf"), path("r"), {}).status().message().find("GGUF"), std::string::npos);
  EXPECT_FALSE(make_twin(path("model"), path("r"), {.from_weights = true}).ok());
  ASSERT_TRUE(write_file(path("model/generation_config.json"), "{}").ok());
  EXPECT_NE(make_twin(path("model/generation_config.json"), path("r"), {}).status().message().find("its config.json"),
            std::string::npos)
      << "another file of the directory is not the directory";
  EXPECT_FALSE(fs::exists(path("r"))) << "nothing stays";
  EXPECT_NE(make_twin(path("model"), path("model"), {}).status().message().find("not empty"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::adapt
