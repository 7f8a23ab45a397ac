// SPDX-License-Identifier: Apache-2.0
// SafetensorsWriter (safetensors_writer.cc), read back through Checkpoint.
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

std::string text_of(const Checkpoint& checkpoint, std::string_view name) {
  const auto bytes = checkpoint.bytes(*checkpoint.find(name)).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SafetensorsWriter, OneFileInAnyOrderAndInPieces) {
  const Scratch scratch;
  auto writer = SafetensorsWriter::create(scratch.path(), {{"small", DType::kU8, {3}},
                                                           {"wide", DType::kF64, {1, 2}},
                                                           {"scalar", DType::kBF16, {}},
                                                           {"empty", DType::kF32, {0, 7}}});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE(writer->append("wide", as_bytes("01234")).ok());
  ASSERT_TRUE(writer->append("small", as_bytes("abc")).ok());
  ASSERT_TRUE(writer->append("wide", as_bytes("56789012345")).ok());
  ASSERT_TRUE(writer->append("scalar", as_bytes("xy")).ok());
  EXPECT_FALSE(std::filesystem::exists(scratch.path("model.safetensors")));  // not before it is whole
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(writer->files(), std::vector<std::string>{scratch.path("model.safetensors")});
  const auto opened = Checkpoint::open(scratch.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(text_of(*opened, "wide"), "0123456789012345");
  EXPECT_EQ(text_of(*opened, "small"), "abc");
  EXPECT_EQ(text_of(*opened, "scalar"), "xy");
  EXPECT_EQ(text_of(*opened, "empty"), "");
  EXPECT_EQ(opened->find("empty")->shape, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(opened->metadata().at("format"), "pt");
  EXPECT_EQ(opened->find("wide")->offset % 64, 0u);  // wide elements first: aligned without holes
  EXPECT_EQ(opened->find("scalar")->offset % 2, 0u);
}

TEST(SafetensorsWriter, ShardsAndTheirIndex) {
  const Scratch scratch;
  std::vector<TensorPlan> plans;
  for (int i = 0; i < 5; ++i) plans.push_back({"t" + std::to_string(i), DType::kU8, {i == 2 ? 100 : 4}});
  auto writer = SafetensorsWriter::create(scratch.path(), plans, {.max_shard_bytes = 10});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const TensorPlan& plan : plans) {
    const std::string data(static_cast<size_t>(plan.shape[0]), plan.name[1]);
    ASSERT_TRUE(writer->append(plan.name, as_bytes(data)).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_TRUE(std::filesystem::exists(scratch.path("model-00001-of-00003.safetensors")));
  EXPECT_EQ(writer->files().back(), scratch.path("model.safetensors.index.json"));
  const auto opened = Checkpoint::open(scratch.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_TRUE(opened->warnings().empty());  // total_size agrees
  EXPECT_EQ(opened->files().size(), 3u);
  EXPECT_EQ(opened->find("t0")->file_idx, opened->find("t1")->file_idx);
  EXPECT_EQ(opened->find("t3")->file_idx, opened->find("t4")->file_idx);
  for (const TensorPlan& plan : plans) {
    EXPECT_EQ(text_of(*opened, plan.name), std::string(static_cast<size_t>(plan.shape[0]), plan.name[1]));
  }
}

TEST(SafetensorsWriter, OddNamesAndMetadataComeBack) {
  const Scratch scratch;
  const std::string name = "a\"\\\n😀";
  auto writer = SafetensorsWriter::create(scratch.path(), {{name, DType::kI8, {1}}}, {.metadata = {{"k\"", "v\n"}}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(name, as_bytes("z")).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto opened = Checkpoint::open(scratch.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(text_of(*opened, name), "z");
  EXPECT_EQ(opened->metadata().at("k\""), "v\n");
}

TEST(SafetensorsWriter, AnEmptyCheckpointIsValid) {
  const Scratch scratch;
  auto writer = SafetensorsWriter::create(scratch.path(), {}, {.metadata = {}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto opened = Checkpoint::open(scratch.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_TRUE(opened->tensors().empty());
}

TEST(SafetensorsWriter, PlansAreChecked) {
  const Scratch scratch;
  const auto code = [&](std::vector<TensorPlan> plans) {
    return SafetensorsWriter::create(scratch.path(), std::move(plans)).code();
  };
  EXPECT_EQ(code({{"a", DType::kQ4_0, {32}}}), StatusCode::kUnsupported);
  EXPECT_EQ(code({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"", DType::kU8, {1}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"__metadata__", DType::kU8, {1}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kU8, {-1}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kF4E2M1, {3}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(SafetensorsWriter::create(scratch.path("absent"), {}).code(), StatusCode::kInvalidArgument);
}

TEST(SafetensorsWriter, TooManyTooFewOrUnknownBytesAreRefusedAndNothingStays) {
  const Scratch scratch;
  {
    auto writer = SafetensorsWriter::create(scratch.path(), {{"a", DType::kU8, {4}}});
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer->append("b", as_bytes("x")).code(), StatusCode::kNotFound);
    EXPECT_EQ(writer->append("a", as_bytes("12345")).code(), StatusCode::kInvalidArgument);
    ASSERT_TRUE(writer->append("a", as_bytes("123")).ok());
    const Status status = writer->finish();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_HAS(status.message(), "\"a\" is incomplete: 3 of 4 bytes");
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace firstlight::formats
