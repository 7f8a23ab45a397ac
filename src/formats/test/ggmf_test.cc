// SPDX-License-Identifier: Apache-2.0
#include "formats/ggmf.h"

#include <gtest/gtest.h>

#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

std::string message_of(const std::string& file) {
  const auto parsed = parse_ggmf(as_bytes(file));
  return parsed.ok() ? "accepted" : parsed.status().message();
}

std::string with_word(std::string file, size_t at, uint32_t word) {
  std::memcpy(file.data() + at, &word, sizeof(word));
  return file;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Ggmf, HeaderAndTensorsInFileOrder) {
  const std::string file = ggmf_text();
  const auto parsed = parse_ggmf(as_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->num_vocabulary, 7);
  EXPECT_EQ(parsed->width, 5);
  EXPECT_EQ(parsed->num_layers, 3);
  ASSERT_EQ(parsed->tensors.size(), 3u);
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[0].dtype, DType::kF32);
  EXPECT_EQ(parsed->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parsed->tensors[1].shape, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(parsed->tensors[1].dtype, DType::kF16);
  EXPECT_EQ(parsed->tensors[2].dtype, DType::kQ5_0);
  EXPECT_EQ(parsed->tensors[2].size_bytes, 44u);
  EXPECT_EQ(parsed->tensors[2].offset + 44, file.size());
}

TEST(Ggmf, OpensByItsFirstBytes) {
  const Scratch scratch;
  const auto checkpoint = Checkpoint::open(scratch.write("x.bin", ggmf_text()));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  EXPECT_EQ(checkpoint->format(), CheckpointFormat::kGgmf);
  EXPECT_EQ(checkpoint->metadata().at("num_layers"), "3");
  const auto bytes = checkpoint->bytes(*checkpoint->find("a"));
  ASSERT_TRUE(bytes.ok());
  float value = 0;
  std::memcpy(&value, bytes->data() + 5 * sizeof(float), sizeof(value));
  EXPECT_EQ(value, 5.0f);
}

TEST(Ggmf, RefusesWhatItIsNot) {
  const std::string file = ggmf_text();
  EXPECT_TRUE(has(message_of(""), "bytes wanted"));
  EXPECT_TRUE(has(message_of(with_word(file, 0, 1)), "magic"));
  EXPECT_TRUE(has(message_of(with_word(file, 4, 100)), "version: found 100"));
  EXPECT_TRUE(has(message_of(with_word(file, 8, 0)), "vocabulary: found 0"));
  EXPECT_TRUE(has(message_of(with_word(file, 16, 0xffffffff)), "layers: found -1"));
  EXPECT_TRUE(has(message_of(with_word(file, 24, 5)), "rank: found 5"));
  EXPECT_TRUE(has(message_of(with_word(file, 28, 0)), "length of a name"));
  EXPECT_TRUE(has(message_of(with_word(file, 32, 4)), "data type: found 4"));
  EXPECT_TRUE(has(message_of(with_word(file, 36, 0x7fffffff)), "only"));
  EXPECT_TRUE(has(message_of(file.substr(0, file.size() - 1)), "tensor \"c\""));
  std::string twice = file;
  twice[24 + 5 * 4 + 1 + 24 + 6 * 4] = 'a';  // the name of the second
  EXPECT_TRUE(has(message_of(twice), "occurs twice"));
}

TEST(Ggmf, ATrainedCheckpoint) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/checkpoints/tiny-rwkv-5v2-730K/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: checkpoints/tiny-rwkv-5v2-730K";
  for (const char* name : {"tiny-rwkv-5v2-730K-FP16.bin", "tiny-rwkv-5v2-730K-Q5_0.bin"}) {
    const auto parsed = parse_ggmf(as_bytes(read_all(folder + name)));
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(parsed->num_vocabulary, 256);
    EXPECT_EQ(parsed->width, 64);
    EXPECT_EQ(parsed->num_layers, 12);
    EXPECT_EQ(parsed->tensors.size(), 270u);
  }
}

}  // namespace
}  // namespace firstlight::formats
