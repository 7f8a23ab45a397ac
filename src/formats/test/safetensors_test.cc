// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <map>

#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

using tensor::DType;

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(as_bytes(file), file.size());
}

// The message of a refused file.
std::string refusal(const std::string& file, StatusCode wanted = StatusCode::kInvalidData) {
  const auto header = parse(file);
  EXPECT_EQ(header.code(), wanted);
  return header.ok() ? "" : header.status().message();
}

std::string entry(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

// all_dtypes.safetensors was made by tools/golden/formats_files.py with the safetensors package.
TEST(Safetensors, EveryDtypeOfTheFormat) {
  const std::string file = read_all(test_data("all_dtypes.safetensors"));
  const auto header = parse(file);
  ASSERT_TRUE(header.ok()) << header.status().message();
  std::map<std::string, TensorRecord> found;
  for (const TensorRecord& record : header->tensors) found[record.name] = record;
  const std::pair<const char*, DType> wanted[] = {{"bool", DType::kBool},
                                                  {"uint8", DType::kU8},
                                                  {"int8", DType::kI8},
                                                  {"int16", DType::kI16},
                                                  {"uint16", DType::kU16},
                                                  {"float16", DType::kF16},
                                                  {"bfloat16", DType::kBF16},
                                                  {"int32", DType::kI32},
                                                  {"uint32", DType::kU32},
                                                  {"float32", DType::kF32},
                                                  {"float64", DType::kF64},
                                                  {"int64", DType::kI64},
                                                  {"uint64", DType::kU64},
                                                  {"float8_e4m3fn", DType::kF8E4M3},
                                                  {"float8_e5m2", DType::kF8E5M2},
                                                  {"float8_e8m0fnu", DType::kF8E8M0}};
  for (size_t place = 0; place < std::size(wanted); ++place) {
    const auto& [name, dtype] = wanted[place];
    ASSERT_TRUE(found.contains(std::string("t.") + name)) << name;
    const TensorRecord& record = found[std::string("t.") + name];
    EXPECT_EQ(record.dtype, dtype) << name;
    EXPECT_EQ(record.shape, (std::vector<int64_t>{2, 3})) << name;
    ASSERT_EQ(record.size_bytes, 6u * static_cast<uint64_t>(tensor::dtype_info(dtype).block_bytes)) << name;
    for (size_t i = 0; i < record.size_bytes; ++i) {
      const size_t byte = (37 * i + 11 * place) % 256;
      EXPECT_EQ(static_cast<unsigned char>(file[record.offset + i]), dtype == DType::kBool ? byte % 2 : byte) << name;
    }
  }
  EXPECT_EQ(found["scalar"].shape, std::vector<int64_t>{});
  EXPECT_EQ(found["empty"].shape, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(Safetensors, F4PacksTwoElementsToAByte) {
  const auto header = parse(safetensors_file(entry(R"("dtype":"F4","shape":[2,3],"data_offsets":[0,3])"), "abc"));
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->tensors[0].dtype, DType::kF4E2M1);
  EXPECT_HAS(refusal(safetensors_file(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "ab")),
             "whole number");
}

TEST(Safetensors, NamesGoBothWays) {
  for (int i = 0; i <= static_cast<int>(DType::kF4E2M1); ++i) {
    const auto type = static_cast<DType>(i);
    ASSERT_TRUE(safetensors_dtype_name(type)) << tensor::dtype_name(type);
    EXPECT_EQ(safetensors_dtype_from_name(*safetensors_dtype_name(type)), type);
  }
  EXPECT_EQ(safetensors_dtype_name(DType::kQ4_0), std::nullopt);
}

TEST(Safetensors, AnUnknownDtypeIsNamedWithItsTensor) {
  const std::string message =
      refusal(safetensors_file(entry(R"("dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3])"), "abc"),
              StatusCode::kUnsupported);
  EXPECT_HAS(message, "F6_E2M3");
  EXPECT_HAS(message, "\"t\"");
}

TEST(Safetensors, HeadersThatAreNone) {
  EXPECT_HAS(refusal(""), "0 bytes");
  EXPECT_HAS(refusal("1234567"), "7 bytes");
  EXPECT_HAS(refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), "absurd");
  EXPECT_HAS(refusal(std::string("\x10\0\0\0\0\0\0\0{}", 10)), "cut short");
  EXPECT_HAS(refusal(safetensors_file("", "")), "does not begin");
  EXPECT_HAS(refusal(safetensors_file(" {}", "")), "does not begin");
  EXPECT_HAS(refusal(safetensors_file("{\"t\":", "")), "header: ");
  EXPECT_HAS(refusal(safetensors_file("{\"\xff\":1}", "")), "header: ");
  EXPECT_TRUE(parse(safetensors_file("{}   ", "")).ok());
}

TEST(Safetensors, FieldsAreChecked) {
  const auto one = [](const std::string& fields) { return refusal(safetensors_file(entry(fields), "12345678")); };
  EXPECT_HAS(one(R"("shape":[2],"data_offsets":[0,8])"), "found 0 dtype");
  EXPECT_HAS(one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), "found 2 dtype");
  EXPECT_HAS(one(R"("dtype":5,"shape":[2],"data_offsets":[0,8])"), "dtype: a string wanted");
  EXPECT_HAS(one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), "shape: an array");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "negative");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "whole numbers");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "1 numbers");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), "more than two");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[2],"data_offsets":[-1,7])"), "not negative");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "backwards");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])"), "absurd");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "shape [3] of F32 takes 12 bytes");
  EXPECT_HAS(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "more elements than");
  EXPECT_HAS(refusal(safetensors_file("{\"t\":[]}", "")), "an object wanted");
}

TEST(Safetensors, DataMustFillTheFile) {
  const std::string header = entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])");
  EXPECT_TRUE(parse(safetensors_file(header, "1234")).ok());
  EXPECT_HAS(refusal(safetensors_file(header, "123")), "cut short");
  EXPECT_HAS(refusal(safetensors_file(header, "12345")), "1 trailing bytes");
  EXPECT_HAS(refusal(safetensors_file(entry(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"), "1234")),
             "belong to no tensor");
  const std::string two = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                          R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})";
  EXPECT_HAS(refusal(safetensors_file(two, "1234")), "inside tensor \"a\"");
}

TEST(Safetensors, DuplicateNamesAreRefused) {
  const std::string two = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                          R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})";
  EXPECT_HAS(refusal(safetensors_file(two, "1234")), "\"a\" occurs twice");
}

TEST(Safetensors, MetadataHoldsStringsOnly) {
  EXPECT_HAS(refusal(safetensors_file(R"({"__metadata__":{"a":1}})", "")), "a string wanted");
  EXPECT_HAS(refusal(safetensors_file(R"({"__metadata__":{"a":"1","a":"2"}})", "")), "occurs twice");
  EXPECT_HAS(refusal(safetensors_file(R"({"__metadata__":[]})", "")), "an object of strings");
}

TEST(Safetensors, OddNamesAreKept) {
  const auto header = parse(safetensors_file(
      "{\"\\u0000 a/../b \\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", "x"));
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->tensors[0].name, std::string("\0 a/../b 😀", 13));
}

TEST(Safetensors, AHundredThousandTensorsAreNoQuadraticMatter) {
  std::string header = "{";
  for (int i = 0; i < 100000; ++i) {
    header += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  const auto parsed = parse(safetensors_file(header + "}", std::string(100000, 'x')));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->tensors.size(), 100000u);
}

TEST(Safetensors, AHeaderAloneIsEnoughWhenTheSizeIsNotKnown) {
  const std::string head = safetensors_file(entry(R"("dtype":"F32","shape":[1024],"data_offsets":[0,4096])"), "");
  EXPECT_FALSE(parse(head).ok());
  EXPECT_TRUE(parse_safetensors_header(as_bytes(head), std::nullopt).ok());
}

}  // namespace
}  // namespace firstlight::formats
