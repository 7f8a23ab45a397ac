// SPDX-License-Identifier: Apache-2.0
// Checkpoint::open (checkpoint_opener.cc): which files a path means, and what is said when they are not right.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/tensor_file.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

std::string refusal(const std::string& path, StatusCode wanted) {
  const auto opened = Checkpoint::open(path);
  EXPECT_EQ(opened.code(), wanted);
  return opened.ok() ? "" : opened.status().message();
}

std::string index_of(std::initializer_list<std::pair<std::string, std::string>> weight_map, uint64_t total_size = 0) {
  std::string out = "{\"metadata\":{\"total_size\":" + std::to_string(total_size) + "},\"weight_map\":{";
  for (const auto& [tensor, file] : weight_map) out += "\"" + tensor + "\":\"" + file + "\",";
  out.back() = '}';
  return out + "}";
}

std::string small_gguf(const std::string& tensor, int number = 0, int count = 1, int total = 0) {
  GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  if (count > 1) {
    writer.set("split.no", static_cast<uint16_t>(number));
    writer.set("split.count", static_cast<uint16_t>(count));
    writer.set("split.tensors.count", int32_t{total});
  }
  EXPECT_TRUE(writer.add_tensor(tensor, DType::kF32, {2}, as_bytes("12345678")).ok());
  return writer.encode();
}

TEST(CheckpointOpener, ADirectoryWithOneFile) {
  const Scratch scratch;
  scratch.write("model.safetensors", safetensors_of({"a"}));
  scratch.write("pytorch_model.bin", "never opened");
  const auto opened = Checkpoint::open(scratch.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->files(), std::vector<std::string>{scratch.path("model.safetensors")});
}

TEST(CheckpointOpener, ALoneFileOfAnotherName) {
  const Scratch scratch;
  scratch.write("weights.safetensors", safetensors_of({"a"}));
  EXPECT_TRUE(Checkpoint::open(scratch.path()).ok());
}

TEST(CheckpointOpener, ShardsWithAnIndex) {
  const Scratch scratch;
  scratch.write("model-1.safetensors", safetensors_of({"b", "a"}));
  scratch.write("model-2.safetensors", safetensors_of({"c"}));
  scratch.write(
      "model.safetensors.index.json",
      index_of({{"a", "model-1.safetensors"}, {"b", "model-1.safetensors"}, {"c", "model-2.safetensors"}}, 24));
  for (const std::string& path : {scratch.path(), scratch.path("model.safetensors.index.json")}) {
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->tensors().size(), 3u);
    EXPECT_EQ(opened->files().size(), 2u);
    EXPECT_EQ(opened->files()[opened->find("c")->file_idx], scratch.path("model-2.safetensors"));
    EXPECT_TRUE(opened->warnings().empty());
  }
}

TEST(CheckpointOpener, AWrongTotalSizeIsAWarning) {
  const Scratch scratch;
  scratch.write("s.safetensors", safetensors_of({"a"}));
  scratch.write("model.safetensors.index.json", index_of({{"a", "s.safetensors"}}, 999));
  const auto opened = Checkpoint::open(scratch.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_EQ(opened->warnings().size(), 1u);
  EXPECT_HAS(opened->warnings()[0], "999");
}

TEST(CheckpointOpener, MissingShardMissingTensorAndStaleIndexAreToldApart) {
  const Scratch scratch;
  scratch.write("1.safetensors", safetensors_of({"a"}));
  const auto with_index = [&](const std::string& index) {
    return scratch.write("model.safetensors.index.json", index);
  };
  std::string message =
      refusal(with_index(index_of({{"a", "1.safetensors"}, {"b", "2.safetensors"}})), StatusCode::kNotFound);
  EXPECT_HAS(message, "missing shard");
  EXPECT_HAS(message, "2.safetensors");
  EXPECT_HAS(message, "\"b\"");

  scratch.write("2.safetensors", safetensors_of({"b"}));
  message = refusal(with_index(index_of({{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "2.safetensors"}})),
                    StatusCode::kInvalidData);
  EXPECT_HAS(message, "missing tensor");
  EXPECT_HAS(message, "2.safetensors");
  EXPECT_HAS(message, "\"c\"");

  message = refusal(with_index(index_of({{"a", "2.safetensors"}, {"b", "1.safetensors"}})), StatusCode::kInvalidData);
  EXPECT_HAS(message, "stale index");
  EXPECT_HAS(message, "\"a\" is in shard \"1.safetensors\", the index says \"2.safetensors\"");

  scratch.write("2.safetensors", safetensors_of({"b", "extra"}));
  message = refusal(with_index(index_of({{"a", "1.safetensors"}, {"b", "2.safetensors"}})), StatusCode::kInvalidData);
  EXPECT_HAS(message, "stale index");
  EXPECT_HAS(message, "\"extra\"");

  scratch.write("2.safetensors", safetensors_of({"b", "a"}));
  message = refusal(with_index(index_of({{"a", "1.safetensors"}, {"b", "2.safetensors"}})), StatusCode::kInvalidData);
  EXPECT_HAS(message, "\"a\" is also in");
}

TEST(CheckpointOpener, ABrokenShardIsNamed) {
  const Scratch scratch;
  const std::string whole = safetensors_of({"a"});
  scratch.write("1.safetensors", whole.substr(0, whole.size() - 1));
  const std::string index = scratch.write("model.safetensors.index.json", index_of({{"a", "1.safetensors"}}));
  const std::string message = refusal(index, StatusCode::kInvalidData);
  EXPECT_HAS(message, "1.safetensors");
  EXPECT_HAS(message, "(" + std::to_string(whole.size() - 1) + " bytes)");
}

TEST(CheckpointOpener, ManyFilesWithoutAnIndexAreNotGuessedAt) {
  const Scratch scratch;
  scratch.write("1.safetensors", safetensors_of({"a"}));
  scratch.write("2.safetensors", safetensors_of({"b"}));
  EXPECT_HAS(refusal(scratch.path(), StatusCode::kNotFound), "2 safetensors files");
  scratch.write("model.safetensors", safetensors_of({"c"}));
  EXPECT_TRUE(Checkpoint::open(scratch.path()).ok());
  scratch.write("model.safetensors.index.json", index_of({{"a", "1.safetensors"}}));
  EXPECT_HAS(refusal(scratch.path(), StatusCode::kInvalidData), "give the path");
  EXPECT_TRUE(Checkpoint::open(scratch.path("model.safetensors.index.json")).ok());
}

TEST(CheckpointOpener, NothingToOpen) {
  const Scratch scratch;
  EXPECT_HAS(refusal(scratch.path("absent"), StatusCode::kNotFound), "absent");
  EXPECT_HAS(refusal(scratch.path(), StatusCode::kNotFound), "no weights");
  scratch.write("model.bin", "x");
  EXPECT_HAS(refusal(scratch.path(), StatusCode::kNotFound), "model.bin");
  EXPECT_HAS(refusal(scratch.write("notes.txt", "hello"), StatusCode::kInvalidData), "begins with \"hello\"");
  EXPECT_HAS(refusal(scratch.write("empty.safetensors", ""), StatusCode::kInvalidData), "0 bytes");
  EXPECT_HAS(refusal(scratch.write("empty.gguf", ""), StatusCode::kInvalidData), "0 bytes");
}

TEST(CheckpointOpener, AnLfsPointerIsRecognised) {
  const Scratch scratch;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n";
  EXPECT_HAS(refusal(scratch.write("model.safetensors", pointer), StatusCode::kInvalidData), "Git LFS pointer");
  EXPECT_HAS(refusal(scratch.write("m.gguf", pointer), StatusCode::kInvalidData), "Git LFS pointer");
  EXPECT_HAS(refusal(scratch.write("model.safetensors.index.json", pointer), StatusCode::kInvalidData), "Git LFS");
}

TEST(CheckpointOpener, LinksOfADownloadCache) {
  const Scratch scratch;
  scratch.write("blobs/0123ab", safetensors_of({"a"}));
  std::filesystem::create_directories(scratch.path("snapshots/ünï cödé 'x'"));
  const std::string folder = "snapshots/ünï cödé 'x'";
  scratch.link(folder + "/model.safetensors", "../../blobs/0123ab");
  EXPECT_TRUE(Checkpoint::open(scratch.path(folder)).ok());  // by the link's name, not by "0123ab"

  std::filesystem::remove(scratch.path("blobs/0123ab"));
  std::string message = refusal(scratch.path(folder), StatusCode::kNotFound);
  EXPECT_HAS(message, "model.safetensors");
  EXPECT_HAS(message, "../../blobs/0123ab");

  const std::string whole = safetensors_of({"a"});
  scratch.write("blobs/0123ab", whole.substr(0, whole.size() / 2));  // an unfinished download
  message = refusal(scratch.path(folder), StatusCode::kInvalidData);
  EXPECT_HAS(message, "a link to ../../blobs/0123ab");
  EXPECT_HAS(message, "cut short");
}

TEST(CheckpointOpener, ADanglingShardLinkIsAMissingShard) {
  const Scratch scratch;
  scratch.link("1.safetensors", "nowhere");
  const std::string index = scratch.write("model.safetensors.index.json", index_of({{"a", "1.safetensors"}}));
  EXPECT_HAS(refusal(index, StatusCode::kNotFound), "1.safetensors (a link to nowhere)");
}

TEST(CheckpointOpener, AnUnknownEndingIsJudgedByContent) {
  const Scratch scratch;
  EXPECT_TRUE(Checkpoint::open(scratch.write("blob1", safetensors_of({"a"}))).ok());
  const auto gguf = Checkpoint::open(scratch.write("blob2", small_gguf("t")));
  ASSERT_TRUE(gguf.ok());
  EXPECT_EQ(gguf->format(), CheckpointFormat::kGguf);
}

TEST(CheckpointOpener, ADirectoryWithAGguf) {
  const Scratch scratch;
  scratch.write("m-q4.gguf", small_gguf("t"));
  EXPECT_EQ(Checkpoint::open(scratch.path())->format(), CheckpointFormat::kGguf);
  scratch.write("m-q8.gguf", small_gguf("t"));
  EXPECT_HAS(refusal(scratch.path(), StatusCode::kInvalidData), "2 GGUF files");
}

TEST(CheckpointOpener, ASplitGgufIsReadFromItsFirstPart) {
  const Scratch scratch;
  const std::string first = scratch.write("m-00001-of-00003.gguf", small_gguf("t1", 0, 3, 3));
  scratch.write("m-00002-of-00003.gguf", small_gguf("t2", 1, 3, 3));
  EXPECT_HAS(refusal(first, StatusCode::kNotFound), "missing part 3 of 3");
  const std::string last = scratch.write("m-00003-of-00003.gguf", small_gguf("t3", 2, 3, 3));
  for (const std::string& path : {first, scratch.path()}) {
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->files().size(), 3u);
    EXPECT_EQ(opened->tensors().size(), 3u);
    EXPECT_TRUE(opened->bytes(*opened->find("t3")).ok());
  }
  EXPECT_HAS(refusal(last, StatusCode::kInvalidData), "give the path of the first");
  scratch.write("m-00003-of-00003.gguf", small_gguf("t3", 1, 3, 3));
  EXPECT_HAS(refusal(first, StatusCode::kInvalidData), "split.no is 1, its name wants 2");
  scratch.write("m-00003-of-00003.gguf", small_gguf("t2", 2, 3, 3));
  EXPECT_HAS(refusal(first, StatusCode::kInvalidData), "\"t2\" is also in");
  scratch.write("m-00003-of-00003.gguf", small_gguf("t3", 2, 3, 3));
  scratch.write("m-00001-of-00003.gguf", small_gguf("t1", 0, 3, 4));
  EXPECT_HAS(refusal(first, StatusCode::kInvalidData), "split.tensors.count is 4");
  EXPECT_HAS(refusal(scratch.write("renamed.gguf", small_gguf("t1", 0, 3, 3)), StatusCode::kInvalidData),
             "-00001-of-00003.gguf");
}

TEST(CheckpointOpener, ThingsThatAreNoFiles) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path("model.safetensors"));
  EXPECT_FALSE(Checkpoint::open(scratch.path()).ok());
  ASSERT_EQ(::mkfifo(scratch.path("pipe.gguf").c_str(), 0600), 0);
  EXPECT_FALSE(Checkpoint::open(scratch.path("pipe.gguf")).ok());  // and does not wait for a writer
}

}  // namespace
}  // namespace firstlight::formats
