// SPDX-License-Identifier: Apache-2.0
// Names, shapes and paths in messages (names.cc).
#include <gtest/gtest.h>

#include "formats/tensor_file.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

TEST(Names, OddCharactersAreEscaped) {
  EXPECT_EQ(quote_name("model.layers.0.q"), "\"model.layers.0.q\"");
  EXPECT_EQ(quote_name("a\nb\x1b[31m"), "\"a\\x0ab\\x1b[31m\"");
  EXPECT_EQ(quote_name(std::string_view("\0", 1)), "\"\\x00\"");
  EXPECT_EQ(quote_name("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"");
  EXPECT_EQ(quote_name("größe 重み 🙂"), "\"größe 重み 🙂\"");
}

TEST(Names, BrokenUtf8IsEscapedByteByByte) {
  EXPECT_EQ(quote_name("\xff"), "\"\\xff\"");
  EXPECT_EQ(quote_name("\xc3"), "\"\\xc3\"");                    // cut short
  EXPECT_EQ(quote_name("\xc0\x80"), "\"\\xc0\\x80\"");           // overlong
  EXPECT_EQ(quote_name("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");  // a surrogate
  EXPECT_EQ(quote_name("\xf5\x80\x80\x80"), "\"\\xf5\\x80\\x80\\x80\"");
}

TEST(Names, LongNamesAreCut) {
  const std::string text = quote_name(std::string(1 << 20, 'x'));
  EXPECT_LT(text.size(), 300u);
  EXPECT_HAS(text, "…");
}

TEST(Names, Shapes) {
  EXPECT_EQ(shape_text(std::vector<int64_t>{}), "[]");
  EXPECT_EQ(shape_text(std::vector<int64_t>{2, 3}), "[2, 3]");
  TensorRecord record;
  EXPECT_EQ(record.num_elements(), 1);
  record.shape = {2, 3, 4};
  EXPECT_EQ(record.num_elements(), 24);
}

TEST(Names, LinksAreShownWithTheirTarget) {
  const Scratch scratch;
  const std::string link = scratch.link("model.safetensors", "blobs/ab12");
  EXPECT_EQ(describe_file(link), link + " (a link to blobs/ab12)");
  EXPECT_EQ(describe_file(scratch.path("plain")), scratch.path("plain"));
}

}  // namespace
}  // namespace firstlight::formats
