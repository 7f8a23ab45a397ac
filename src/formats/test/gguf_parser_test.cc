// SPDX-License-Identifier: Apache-2.0
// GgufFile::parse (gguf_parser.cc), on files of the gguf package and on files made wrong byte by byte.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

Result<GgufFile> parse(const std::string& file) { return GgufFile::parse(as_bytes(file)); }

std::string refusal(const std::string& file, StatusCode wanted = StatusCode::kInvalidData) {
  const auto parsed = parse(file);
  EXPECT_EQ(parsed.code(), wanted);
  return parsed.ok() ? "" : parsed.status().message();
}

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string text(const std::string& value) { return raw(uint64_t{value.size()}) + value; }
std::string head(uint64_t num_tensors, uint64_t num_entries, uint32_t version = 3) {
  return "GGUF" + raw(version) + raw(num_tensors) + raw(num_entries);
}
// A table row of one tensor with these dimensions, innermost first.
std::string row(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
  std::string out = text(name) + raw(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) out += raw(dim);
  return out + raw(type) + raw(offset);
}
std::string with_data(std::string file, size_t data_bytes) {
  file.resize((file.size() + 31) / 32 * 32);
  return file + std::string(data_bytes, 'd');
}

// all_types.gguf and nested_v2.gguf were made by tools/golden/formats_files.py.
TEST(GgufParser, EveryTensorTypeOfThePackage) {
  const std::string file = read_all(test_data("all_types.gguf"));
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->version(), 3u);
  EXPECT_EQ(parsed->alignment(), 32u);
  const std::pair<const char*, std::optional<DType>> wanted[] = {
      {"F32", DType::kF32},     {"F16", DType::kF16},    {"BF16", DType::kBF16}, {"F64", DType::kF64},
      {"I8", DType::kI8},       {"I16", DType::kI16},    {"I32", DType::kI32},   {"I64", DType::kI64},
      {"Q8_0", DType::kQ8_0},   {"Q4_0", DType::kQ4_0},  {"Q4_1", DType::kQ4_1}, {"Q5_0", DType::kQ5_0},
      {"Q5_1", DType::kQ5_1},   {"Q4_K", DType::kQ4_K},  {"Q5_K", DType::kQ5_K}, {"Q6_K", DType::kQ6_K},
      {"MXFP4", DType::kMXFP4}, {"IQ4_XS", std::nullopt}};
  ASSERT_EQ(parsed->tensors().size(), std::size(wanted));
  for (size_t place = 0; place < std::size(wanted); ++place) {
    const auto& [name, dtype] = wanted[place];
    const TensorRecord& record = parsed->tensors()[place];
    EXPECT_EQ(record.name, "blk." + std::to_string(place) + "." + name);
    EXPECT_EQ(record.stored_type, name);
    EXPECT_EQ(record.dtype, dtype) << name;
    EXPECT_EQ(record.shape, (std::vector<int64_t>{3, 256})) << name;
    if (dtype) {
      EXPECT_EQ(static_cast<int64_t>(record.size_bytes), 3 * tensor::row_bytes(*dtype, 256).value()) << name;
    }
    ASSERT_LE(record.offset + record.size_bytes, file.size());
    for (size_t i = 0; i < record.size_bytes; ++i) {
      ASSERT_EQ(static_cast<unsigned char>(file[record.offset + i]), (37 * i + 11 * place) % 256) << name;
    }
  }
}

TEST(GgufParser, Version2NestedArraysAndAlignment) {
  const std::string file = read_all(test_data("nested_v2.gguf"));
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->version(), 2u);
  EXPECT_EQ(parsed->alignment(), 64u);
  const GgufValue* nested = parsed->find("nested");
  ASSERT_NE(nested, nullptr);
  ASSERT_EQ(nested->children.size(), 2u);
  EXPECT_EQ(nested->children[0].element_type, GgufType::kU16);
  EXPECT_EQ(nested->children[0].integer_at(2), 3);
  EXPECT_EQ(nested->children[1].strings, (std::vector<std::string_view>{"x", "yz"}));
  ASSERT_EQ(parsed->tensors().size(), 1u);
  EXPECT_EQ(parsed->tensors()[0].shape, std::vector<int64_t>{});
  EXPECT_EQ(parsed->tensors()[0].offset % 64, 0u);
  float value = 0;
  std::memcpy(&value, file.data() + parsed->tensors()[0].offset, 4);
  EXPECT_EQ(value, 1.25f);
}

TEST(GgufParser, HeadersThatAreNone) {
  EXPECT_HAS(refusal(""), "GGUF magic");
  EXPECT_HAS(refusal("GGML1234"), "begins with \"GGML\"");
  EXPECT_HAS(refusal("GGUF"), "version");
  EXPECT_HAS(refusal("GGUF" + raw(uint32_t{1}) + std::string(16, '\0'), StatusCode::kUnsupported), "version 1");
  EXPECT_HAS(refusal("GGUF" + raw(uint32_t{4}) + std::string(16, '\0'), StatusCode::kUnsupported), "version 4");
  EXPECT_HAS(refusal(std::string("GGUF\0\0\0\3", 8) + std::string(16, '\0'), StatusCode::kUnsupported), "big-endian");
  EXPECT_HAS(refusal("GGUF" + raw(uint32_t{3}) + "abc"), "tensor count");
  EXPECT_HAS(refusal(head(0, ~uint64_t{0})), "metadata count");
  EXPECT_HAS(refusal(head(~uint64_t{0}, 0)), "tensor count");
  EXPECT_TRUE(parse(head(0, 0)).ok());
}

TEST(GgufParser, MetadataIsBounded) {
  const auto entry = [](const std::string& value) { return head(0, 1) + text("key") + value + std::string(8, '\0'); };
  EXPECT_HAS(refusal(head(0, 1) + raw(~uint64_t{0}) + std::string(16, 'x')), "metadata key 0");
  EXPECT_HAS(refusal(entry(raw(uint32_t{13}))), "value type 13");
  EXPECT_HAS(refusal(entry(raw(uint32_t{8}) + raw(~uint64_t{0}))), "metadata key \"key\"");
  EXPECT_HAS(refusal(entry(raw(uint32_t{9}) + raw(uint32_t{8}) + raw(~uint64_t{0}))), "array length");
  EXPECT_HAS(refusal(entry(raw(uint32_t{9}) + raw(uint32_t{12}) + raw(uint64_t{1} << 61))), "array length");
  EXPECT_HAS(refusal(entry(raw(uint32_t{9}) + raw(uint32_t{9}) + raw(uint64_t{1} << 60))), "array length");
  std::string deep = raw(uint32_t{9});
  for (int i = 0; i < 50; ++i) deep += raw(uint32_t{9}) + raw(uint64_t{1});
  EXPECT_HAS(refusal(entry(deep)), "nested deeper");
}

TEST(GgufParser, DuplicateKeysAndNamesAreRefused) {
  const std::string entry = text("key") + raw(uint32_t{0}) + "\x05";
  EXPECT_HAS(refusal(head(0, 2) + entry + entry), "\"key\" occurs twice");
  EXPECT_HAS(refusal(with_data(head(2, 0) + row("t", {8}, 0, 0) + row("t", {8}, 0, 32), 64)), "\"t\" occurs twice");
}

TEST(GgufParser, AlignmentIsAPowerOfTwoInAU32) {
  const auto file = [](const std::string& value) { return head(0, 1) + text("general.alignment") + value; };
  EXPECT_HAS(refusal(file(raw(uint32_t{4}) + raw(uint32_t{0}))), "power of two");
  EXPECT_HAS(refusal(file(raw(uint32_t{4}) + raw(uint32_t{24}))), "found 24");
  EXPECT_HAS(refusal(file(raw(uint32_t{10}) + raw(uint64_t{32}))), "found u64");
  EXPECT_TRUE(parse(file(raw(uint32_t{4}) + raw(uint32_t{8}))).ok());
}

TEST(GgufParser, TensorsAreCheckedAgainstTheFile) {
  const auto one = [](const std::string& tensor, size_t data_bytes) {
    return with_data(head(1, 0) + tensor, data_bytes);
  };
  ASSERT_TRUE(parse(one(row("t", {8, 2}, 0, 0), 64)).ok());
  EXPECT_EQ(parse(one(row("t", {8, 2}, 0, 0), 64))->tensors()[0].shape, (std::vector<int64_t>{2, 8}));
  EXPECT_HAS(refusal(one(row("t", {8, 2}, 0, 0), 63)), "past the end of the file");
  EXPECT_HAS(refusal(one(row("t", {8, 2}, 0, 0), 96)), "32 trailing bytes");
  EXPECT_HAS(refusal(one(row("t", {8}, 0, 32), 64)), "belong to no tensor");
  EXPECT_HAS(refusal(one(row("t", {8}, 0, 4), 64)), "no multiple of the alignment 32");
  EXPECT_HAS(refusal(one(row("t", {8}, 0, uint64_t{1} << 63), 64)), "absurd");
  EXPECT_HAS(refusal(one(row("t", {1, 1, 1, 1, 1}, 0, 0), 4)), "5 axes");
  EXPECT_HAS(refusal(one(row("t", {uint64_t{1} << 63}, 0, 0), 4)), "absurd");
  EXPECT_HAS(refusal(one(row("t", {1 << 30, 1 << 30, 1 << 30}, 0, 0), 4)), "more elements than");
  EXPECT_HAS(refusal(one(row("t", {33}, 2, 0), 64)), "rows of 33 elements");
  EXPECT_HAS(refusal(with_data(head(2, 0) + row("a", {16}, 0, 0) + row("b", {8}, 0, 32), 64)), "inside tensor \"a\"");
}

TEST(GgufParser, ATypeNobodyKnowsIsListed) {
  const auto parsed = parse(with_data(head(2, 0) + row("odd", {100}, 77, 0) + row("t", {8}, 0, 64), 96));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->tensors()[0].dtype, std::nullopt);
  EXPECT_EQ(parsed->tensors()[0].stored_type, "ggml type 77");
  EXPECT_EQ(parsed->tensors()[0].size_bytes, 64u);
  EXPECT_EQ(parsed->tensors()[1].dtype, DType::kF32);
}

TEST(GgufParser, AHeaderAloneIsEnoughWhenTheSizeIsNotKnown) {
  const std::string file = head(1, 0) + row("t", {8, 2}, 0, 0);
  EXPECT_FALSE(parse(file).ok());
  EXPECT_TRUE(GgufFile::parse(as_bytes(file), std::nullopt).ok());
}

TEST(GgufParser, MetadataAloneMayEndWithoutPadding) {
  GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  const std::string padded = writer.encode();
  const auto parsed = parse(padded);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(parsed->tensors().empty());
  const std::string bare = head(0, 1) + text("general.architecture") + raw(uint32_t{8}) + text("llama");
  EXPECT_TRUE(parse(bare).ok());
  EXPECT_EQ(padded.substr(0, bare.size()), bare);
}

}  // namespace
}  // namespace firstlight::formats
