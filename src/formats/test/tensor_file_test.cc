// SPDX-License-Identifier: Apache-2.0
// What an open Checkpoint gives (tensor_file.cc); how one is opened is in checkpoint_opener_test.cc.
#include "formats/tensor_file.h"

#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/test/scratch.h"
#include "tensor/codec.h"

namespace firstlight::formats {
namespace {

std::vector<float> floats_of(const Checkpoint& checkpoint, std::string_view name) {
  const TensorRecord* record = checkpoint.find(name);
  EXPECT_NE(record, nullptr) << name;
  if (record == nullptr) return {};
  std::vector<float> out(static_cast<size_t>(record->num_elements()));
  EXPECT_TRUE(tensor::decode_to_f32(record->dtype.value(), checkpoint.bytes(*record).value(), out).ok());
  return out;
}

TEST(TensorFile, BytesOfEveryTensor) {
  const Scratch scratch;
  const auto opened = Checkpoint::open(scratch.write("m.safetensors", safetensors_of({"b", "a"})));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->format(), CheckpointFormat::kSafetensors);
  EXPECT_EQ(opened->total_bytes(), 16u);
  EXPECT_EQ(opened->tensors().begin()->first, "a");
  EXPECT_EQ(floats_of(*opened, "b"), (std::vector<float>{0, 0.5f}));
  EXPECT_EQ(floats_of(*opened, "a"), (std::vector<float>{1, 1.5f}));
  EXPECT_EQ(opened->find("c"), nullptr);
  EXPECT_EQ(opened->gguf(), nullptr);
  EXPECT_FALSE(opened->is_metadata_only());
}

TEST(TensorFile, ViewsSurviveAMove) {
  const Scratch scratch;
  auto opened = Checkpoint::open(test_data("all_types.gguf"));
  ASSERT_TRUE(opened.ok());
  const auto before = opened->bytes(*opened->find("blk.0.F32")).value();
  const std::string_view name = opened->gguf()->get_string("general.architecture").value();
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.bytes(*moved.find("blk.0.F32")).value().data(), before.data());
  EXPECT_EQ(moved.gguf()->get_string("general.architecture").value().data(), name.data());
}

TEST(TensorFile, HintsChangeNothing) {
  const auto opened = Checkpoint::open(test_data("all_types.gguf"));
  ASSERT_TRUE(opened.ok());
  for (const auto& [name, record] : opened->tensors()) {
    opened->will_need(record);
    opened->done_with(record);
  }
  const auto bytes = opened->bytes(*opened->find("blk.0.F32")).value();
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(std::to_integer<size_t>(bytes[i]), 37 * i % 256);
}

TEST(TensorFile, ATypeThatIsNotReadIsListedAndRefusedOnUse) {
  const auto opened = Checkpoint::open(test_data("all_types.gguf"));
  ASSERT_TRUE(opened.ok());
  const TensorRecord* record = opened->find("blk.17.IQ4_XS");
  ASSERT_NE(record, nullptr);
  const auto bytes = opened->bytes(*record);
  EXPECT_EQ(bytes.code(), StatusCode::kUnsupported);
  EXPECT_HAS(bytes.status().message(), "IQ4_XS");
  EXPECT_HAS(bytes.status().message(), "blk.17.IQ4_XS");
  opened->will_need(*record);
}

TEST(TensorFile, HeadersAloneListTensorsWithoutBytes) {
  const Scratch scratch;
  const std::string whole = safetensors_of({"a", "b"});
  const std::string path = scratch.write("m.safetensors", whole.substr(0, whole.size() - 12));  // half of a
  EXPECT_EQ(Checkpoint::open(path).code(), StatusCode::kInvalidData);
  const auto opened = Checkpoint::open(path, {.headers_only = true});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->total_bytes(), 16u);
  const auto bytes = opened->bytes(*opened->find("b"));
  EXPECT_EQ(bytes.code(), StatusCode::kNotFound);
  EXPECT_HAS(bytes.status().message(), "opened for its headers only");
  opened->done_with(*opened->find("b"));
}

TEST(TensorFile, TheThreeFormsOfATrainedCheckpointAgree) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/checkpoints/stories260K";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: checkpoints/stories260K";
  const auto hf = Checkpoint::open(folder + "/hf");
  const auto gguf = Checkpoint::open(folder + "/stories260K-f32.gguf");
  ASSERT_TRUE(hf.ok()) << hf.status().message();
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  EXPECT_EQ(hf->tensors().size(), 47u);
  EXPECT_EQ(floats_of(*hf, "model.embed_tokens.weight"), floats_of(*gguf, "token_embd.weight"));
  EXPECT_EQ(hf->find("model.embed_tokens.weight")->shape, gguf->find("token_embd.weight")->shape);
  for (const std::string layer : {"0", "4"}) {
    EXPECT_EQ(floats_of(*hf, "model.layers." + layer + ".mlp.down_proj.weight"),
              floats_of(*gguf, "blk." + layer + ".ffn_down.weight"));
  }
}

TEST(TensorFile, VocabulariesAreFilesOfMetadataAlone) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/gguf-vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: gguf-vocab";
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto opened = Checkpoint::open(entry.path().string());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_TRUE(opened->is_metadata_only());
    EXPECT_EQ(opened->total_bytes(), 0u);
    EXPECT_GT(opened->gguf()->get_strings("tokenizer.ggml.tokens").value().size(), 30000u);
    ++num_files;
  }
  EXPECT_GE(num_files, 6);
}

TEST(TensorFile, QuantisedLayersOpen) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/quant-layers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: quant-layers";
  int num_fp8 = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto opened = Checkpoint::open(entry.path().string());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    for (const auto& [name, record] : opened->tensors()) {
      EXPECT_TRUE(opened->bytes(record).ok()) << name;
      num_fp8 += record.dtype == tensor::DType::kF8E4M3 ? 1 : 0;
    }
  }
  EXPECT_GT(num_fp8, 0);
}

}  // namespace
}  // namespace firstlight::formats
