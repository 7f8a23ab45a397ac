// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <gtest/gtest.h>

namespace firstlight::text {
namespace {

TEST(Unicode, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, c);
    const CodePoint point = decode_utf8(bytes, 0);
    ASSERT_TRUE(point.valid);
    ASSERT_EQ(point.value, c);
    ASSERT_EQ(point.length, bytes.size());
    ASSERT_EQ(utf8_length(bytes[0]), bytes.size());
  }
}

TEST(Unicode, InvalidBytesAreReplacedByMaximalSubparts) {
  // The examples of the Unicode standard, tables 3-8 to 3-11.
  const std::string sign = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            sign + sign + sign + sign + sign + sign + sign + sign + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            sign + sign + sign + sign + sign + sign + sign + sign + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            sign + sign + sign + sign + sign + "A" + sign + sign + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), sign + sign + sign + sign + "A");
  EXPECT_FALSE(is_valid_utf8("\xC0\xAF"));
  EXPECT_TRUE(is_valid_utf8("h\xC3\xA9"));
}

TEST(Unicode, IncompleteSuffixIsAValidBeginningOnly) {
  EXPECT_EQ(incomplete_utf8_suffix("a"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F\x91"), 3u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F"), 2u);
  EXPECT_EQ(incomplete_utf8_suffix("\xE2"), 1u);
  EXPECT_EQ(incomplete_utf8_suffix("\xE2\x82\xAC"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xF0\x80"), 0u);  // can not become valid
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize("e\xCC\x81", NormalForm::kNfc), "\xC3\xA9");
  EXPECT_EQ(normalize("\xC3\xA9", NormalForm::kNfd), "e\xCC\x81");
  EXPECT_EQ(normalize("\xEF\xAC\x81", NormalForm::kNfkc), "fi");
  EXPECT_EQ(normalize("\xEF\xAC\x81", NormalForm::kNfc), "\xEF\xAC\x81");
  EXPECT_EQ(normalize("\xC2\xBD", NormalForm::kNfkd),
            "1\xE2\x81\x84"
            "2");
}

TEST(Unicode, LowerCaseIsPerCodePoint) {
  EXPECT_EQ(lowercase("\xC3\x84"
                      "B\xCE\xA3"),
            "\xC3\xA4"
            "b\xCF\x83");
  EXPECT_EQ(lowercase("\xC4\xB0"), "i\xCC\x87");
}

TEST(Unicode, Classes) {
  EXPECT_TRUE(is_white_space(0x85) && is_white_space(0x3000) && is_white_space('\v'));
  EXPECT_FALSE(is_white_space(0x200B) || is_white_space(0x180E));
  EXPECT_TRUE(is_punctuation('!') && !is_punctuation('+') && is_ascii_punctuation('+'));
  EXPECT_TRUE(is_numeric(0xBD) && is_numeric(0x0663) && !is_numeric('a'));
  EXPECT_TRUE(is_word('_') && is_word(0x4E00) && is_word(0x0301) && !is_word('-'));
  EXPECT_TRUE(is_other(0xE000) && is_other(0x200D) && !is_other(0x378));
  EXPECT_TRUE(is_nonspacing_mark(0x0301) && is_mark(0x0903) && !is_nonspacing_mark(0x0903));
  int32_t state = 0;
  EXPECT_FALSE(is_grapheme_break('e', 0x0301, state));
}

}  // namespace
}  // namespace firstlight::text
