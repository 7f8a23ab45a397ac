// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "formats/gguf_writer.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

// The values that tools/golden/formats_files.py had the gguf package write.
class GgufValues : public ::testing::Test {
 protected:
  const std::string bytes_ = read_all(test_data("all_types.gguf"));
  const Result<GgufFile> parsed_ = GgufFile::parse(as_bytes(bytes_));
  const GgufFile& file() const { return parsed_.value(); }
};

TEST_F(GgufValues, ScalarsOfEveryType) {
  EXPECT_EQ(file().get_string("general.architecture").value(), "llama");
  EXPECT_EQ(file().get_integer("v.u8").value(), 200);
  EXPECT_EQ(file().get_integer("v.i8").value(), -100);
  EXPECT_EQ(file().get_integer("v.u16").value(), 60000);
  EXPECT_EQ(file().get_integer("v.i16").value(), -30000);
  EXPECT_EQ(file().get_integer("v.u32").value(), 4000000000);
  EXPECT_EQ(file().get_integer("v.i32").value(), -2000000000);
  EXPECT_EQ(file().get_integer("v.i64").value(), -(int64_t{1} << 62));
  EXPECT_EQ(file().get_number("v.u64").value(), 9223372036854775813.0);
  EXPECT_EQ(file().get_number("v.f32").value(), static_cast<double>(0.1f));
  EXPECT_EQ(file().get_number("v.f64").value(), 0.1);
  EXPECT_EQ(file().get_number("v.i8").value(), -100.0);
  EXPECT_TRUE(file().get_bool("v.bool").value());
  EXPECT_EQ(file().get_string("v.string").value(), "héllo\n");
}

TEST_F(GgufValues, Arrays) {
  const auto strings = file().get_strings("a.string").value();
  ASSERT_EQ(strings.size(), 4u);
  EXPECT_EQ(strings[0], "");
  EXPECT_EQ(strings[2], "▁the");
  EXPECT_EQ(strings[3], "😀");
  EXPECT_EQ(file().get_integers("a.i32").value(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file().get_numbers("a.f32").value(), (std::vector<double>{0.5, -1.5}));
  EXPECT_EQ(file().find("a.bool")->bool_at(0), true);
  EXPECT_EQ(file().find("a.bool")->bool_at(1), false);
  EXPECT_EQ(file().find("a.bool")->bool_at(2), std::nullopt);
}

TEST_F(GgufValues, StringsAreViewsOfTheFile) {
  const std::string_view piece = file().get_strings("a.string").value()[2];
  EXPECT_GE(piece.data(), bytes_.data());
  EXPECT_LE(piece.data() + piece.size(), bytes_.data() + bytes_.size());
}

TEST_F(GgufValues, WrongTypesNameKeyFoundAndWanted) {
  EXPECT_EQ(file().get_integer("none").code(), StatusCode::kNotFound);
  EXPECT_FALSE(file().has("none"));
  EXPECT_EQ(file().get_string("v.u8").status().message(), "metadata key \"v.u8\": found u8, wanted a string");
  EXPECT_EQ(file().get_integer("v.f32").code(), StatusCode::kInvalidData);
  EXPECT_EQ(file().get_integer("v.u64").code(), StatusCode::kInvalidData);  // past 2^63 - 1
  EXPECT_EQ(file().get_integer("v.bool").code(), StatusCode::kInvalidData);
  EXPECT_EQ(file().get_number("v.string").code(), StatusCode::kInvalidData);
  EXPECT_EQ(file().get_bool("v.u8").code(), StatusCode::kInvalidData);
  EXPECT_HAS(file().get_integer("a.i32").status().message(), "found array of 3 i32");
  EXPECT_EQ(file().get_integers("v.i32").code(), StatusCode::kInvalidData);
  EXPECT_EQ(file().get_integers("a.f32").code(), StatusCode::kInvalidData);
  EXPECT_EQ(file().get_numbers("a.string").code(), StatusCode::kInvalidData);
  EXPECT_EQ(file().get_strings("a.i32").code(), StatusCode::kInvalidData);
}

TEST(Gguf, ABoolIsZeroOrOne) {
  GgufWriter writer;
  writer.set("flag", true);
  std::string bytes = writer.encode();
  bytes[8 + 16 + 8 + 4 + 4] = 2;  // behind the head, the key and the type
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->get_bool("flag").code(), StatusCode::kInvalidData);
}

TEST(Gguf, AVocabularyOf150000TokensIsRead) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 150000; ++i) tokens.push_back("token" + std::to_string(i));
  GgufWriter writer;
  writer.set_array("tokenizer.ggml.tokens", tokens);
  const std::string bytes = writer.encode();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file.ok());
  const auto found = file->get_strings("tokenizer.ggml.tokens").value();
  ASSERT_EQ(found.size(), tokens.size());
  for (size_t i = 0; i < tokens.size(); i += 997) EXPECT_EQ(found[i], tokens[i]);
}

}  // namespace
}  // namespace firstlight::formats
