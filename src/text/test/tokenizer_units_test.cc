// SPDX-License-Identifier: Apache-2.0
// The building blocks of the tokenizers, each with inputs the vocabularies at hand do not have.
#include <gtest/gtest.h>

#include "text/tokenizers/base64.h"
#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/byte_trie.h"
#include "text/tokenizers/charsmap.h"
#include "text/tokenizers/decoder.h"
#include "text/tokenizers/merge_symbols.h"
#include "text/tokenizers/pre_tokenizer.h"
#include "text/tokenizers/protobuf_reader.h"
#include "text/tokenizers/regex.h"
#include "text/tokenizers/vocabulary.h"
#include "text/tokenizers/word_patterns.h"

namespace firstlight::text {
namespace {

std::vector<std::string> matches_of(std::string_view pattern, std::string_view text) {
  std::vector<Span> spans;
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok());
  EXPECT_TRUE(regex->find_all(text, spans).ok());
  std::vector<std::string> found;
  for (const Span& span : spans) found.emplace_back(text.substr(span.begin, span.end - span.begin));
  return found;
}

using Strings = std::vector<std::string>;

TEST(Regex, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(matches_of("\\s+",
                       "a\xC2\x85\xE3\x80\x80"
                       "b\xE1\xA0\x8E"),
            (Strings{"\xC2\x85\xE3\x80\x80"}));  // not U+180E
  EXPECT_EQ(matches_of("[^\\s]+", "a b"), (Strings{"a", "b"}));
  EXPECT_EQ(matches_of("\\S+",
                       "a\xC2\x85"
                       "b"),
            (Strings{"a", "b"}));
}

TEST(Regex, WordCharactersIncludeMarks) {
  EXPECT_EQ(matches_of("\\w+", "e\xCC\x81-a_1"), (Strings{"e\xCC\x81", "a_1"}));
  EXPECT_EQ(matches_of("[\\w]+", "\xE2\x93\x90-"), (Strings{"\xE2\x93\x90"}));
}

TEST(Regex, ClassIntersection) {
  EXPECT_EQ(matches_of("[\\p{L}&&[^\\p{Han}]]+",
                       "ab\xE4\xB8\x80"
                       "c"),
            (Strings{"ab", "c"}));
  EXPECT_EQ(matches_of("[a-z&&[aeiou]]", "hello"), (Strings{"e", "o"}));
}

TEST(Regex, AnchorsAtLinesUnlessToldOtherwise) {
  EXPECT_EQ(matches_of("\\w+$", "ab\ncd"), (Strings{"ab", "cd"}));
  std::vector<Span> spans;
  ASSERT_TRUE(Regex::compile("\\w+$", {.line_anchors = false})->find_all("ab\ncd", spans).ok());
  EXPECT_EQ(spans.size(), 1u);
}

TEST(Regex, LiteralsAndErrors) {
  std::vector<Span> spans;
  ASSERT_TRUE(Regex::literal("a.(b)")->find_all("a.(b) axb", spans).ok());
  EXPECT_EQ(spans.size(), 1u);
  EXPECT_EQ(Regex::compile("[a").code(), StatusCode::kInvalidData);
  EXPECT_EQ(Regex::compile("\\").code(), StatusCode::kInvalidData);
  EXPECT_EQ(Regex::compile(std::string(70000, 'a')).code(), StatusCode::kInvalidData);
}

TEST(Base64, KnownValues) {
  EXPECT_EQ(*decode_base64(""), "");
  EXPECT_EQ(*decode_base64("Zg=="), "f");
  EXPECT_EQ(*decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(*decode_base64("Zm8"), "fo");
  EXPECT_FALSE(decode_base64("Z").ok());
  EXPECT_FALSE(decode_base64("Zm=v").ok());
}

TEST(ByteAlphabet, IsOneToOne) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  std::string mapped;
  append_byte_alphabet(mapped, all);
  EXPECT_EQ(from_byte_alphabet(mapped), all);
  EXPECT_EQ(from_byte_alphabet("\xC4\xA0"), " ");
  EXPECT_FALSE(from_byte_alphabet("a b").has_value());
  EXPECT_EQ(parse_byte_token("<0xaF>"), 0xAF);
  EXPECT_FALSE(parse_byte_token("<0xG0>").has_value());
  EXPECT_EQ(byte_token(0x0A), "<0x0A>");
}

TEST(ByteTrie, PrefixesShortestFirst) {
  const ByteTrie trie({{"a", 1}, {"abc", 2}, {"ab", 3}, {"b", 4}, {"", 5}, {"ab", 6}});
  std::vector<int32_t> found;
  trie.for_each_prefix("xabcd", 1, [&](size_t, int32_t value) { found.push_back(value); });
  EXPECT_EQ(found, (std::vector<int32_t>{1, 6, 2}));
  EXPECT_EQ(trie.longest("abx", 0).length, 2u);
  EXPECT_EQ(trie.longest("x", 0).length, 0u);
  EXPECT_TRUE(trie.can_begin('b') && !trie.can_begin('c'));
  EXPECT_EQ(ByteTrie().longest("a", 0).length, 0u);
}

TEST(Vocabulary, DuplicatesAndGaps) {
  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add("a", 3).ok());
  ASSERT_TRUE(vocabulary.add("b", 3).ok());
  ASSERT_TRUE(vocabulary.add("a", 5).ok());
  EXPECT_EQ(vocabulary.find("a"), 5);
  EXPECT_EQ(vocabulary.find("b"), 3);
  EXPECT_EQ(vocabulary.text(3), "b");
  EXPECT_FALSE(vocabulary.contains(4));
  EXPECT_EQ(vocabulary.find("c"), kNoToken);
  EXPECT_FALSE(vocabulary.add("x", Vocabulary::kMaxId + 1).ok());
  for (int i = 10; i < 5000; ++i) ASSERT_TRUE(vocabulary.add(std::to_string(i), i).ok());
  for (int i = 10; i < 5000; ++i) ASSERT_EQ(vocabulary.find(std::to_string(i)), i);
}

TEST(MergeSymbols, LowestPriorityThenLeftmost) {
  // Digits: two neighbours become their sum if it is below 10; the smaller sum first.
  MergeScratch scratch;
  const std::vector<int32_t> digits = {5, 1, 1, 1, 4, 9};
  for (size_t i = 0; i < digits.size(); ++i) scratch.add(digits[i], static_cast<uint32_t>(i), 1);
  merge_symbols(scratch, [](const Symbol& a, const Symbol& b) {
    const int32_t sum = a.id + b.id;
    return sum < 10 ? Merge{true, static_cast<uint32_t>(sum), sum} : Merge{};
  });
  std::vector<int32_t> left;
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.length > 0) left.push_back(symbol.id);
  }
  EXPECT_EQ(left, (std::vector<int32_t>{5, 7, 9}));  // 1+1, then 2+1, then 3+4
}

TEST(Charsmap, SizesAreChecked) {
  EXPECT_FALSE(Charsmap::parse("abc").ok());
  EXPECT_FALSE(Charsmap::parse(std::string("\x08\0\0\0\0\0\0\0", 8)).ok());
  const auto empty = Charsmap::parse(std::string("\0\0\0\0", 4));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->longest("abc").length, 0u);
  // Units that point far out of the array.
  const auto wild = Charsmap::parse(std::string("\x04\0\0\0\xFF\xFF\xFF\x7F", 8));
  ASSERT_TRUE(wild.ok());
  EXPECT_EQ(wild->longest("abc").length, 0u);
  EXPECT_EQ(wild->apply_by_grapheme("abc"), "abc");
}

TEST(Protobuf, CutShortIsAnError) {
  EXPECT_FALSE(ProtobufReader("\x08").next().ok());
  EXPECT_FALSE(ProtobufReader("\x0A\x05"
                              "ab")
                   .next()
                   .ok());
  EXPECT_FALSE(ProtobufReader("\x0D\x01\x02").next().ok());
  EXPECT_FALSE(ProtobufReader("\x0B").next().ok());
  EXPECT_FALSE(ProtobufReader("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF").next().ok());
  ProtobufReader reader(
      "\x0A\x02"
      "ab");
  EXPECT_EQ(reader.next()->bytes, "ab");
  EXPECT_TRUE(reader.at_end());
}

std::string decode(std::vector<DecoderStep> steps, const Strings& tokens) {
  const auto decoder = Decoder::build(std::move(steps));
  EXPECT_TRUE(decoder.ok());
  Decoder::State state = decoder->begin();
  std::string text;
  for (const std::string& token : tokens) decoder->push(state, token, text);
  decoder->finish(state, text);
  return text;
}

TEST(Decoder, EachKind) {
  EXPECT_EQ(decode({dec::BpeSuffix{"</w>"}}, {"he", "llo</w>", "you</w>"}), "hello you");
  EXPECT_EQ(decode({dec::WordPiece{"##", true}}, {"don", "'", "t", "stop", "##ped", "."}), "don ' t stopped.");
  EXPECT_EQ(decode({dec::Ctc{"<pad>", "|", true}}, {"h", "h", "<pad>", "e", "l", "<pad>", "l", "o", "|", "x"}),
            "hello x");
  EXPECT_EQ(decode({dec::Strip{" ", 1, 1}}, {"  a  ", "b "}), " a b");
  EXPECT_EQ(decode({dec::Fuse{}, dec::Strip{" ", 1, 2}}, {" ", " a ", " ", "b ", " ", " "}), " a  b ");
  dec::Replace across;
  across.from = "ab";
  across.content = "X";
  EXPECT_EQ(decode({dec::Fuse{}, across}, {"a", "b", "a", "a", "b", "a"}), "XaXa");
  EXPECT_EQ(decode({dec::JoinWithSpaces{}}, {"a", "b"}), "a b");
  EXPECT_EQ(decode({dec::Metaspace{"\xE2\x96\x81", true}}, {"\xE2\x96\x81"
                                                            "a",
                                                            "\xE2\x96\x81"
                                                            "b"}),
            "a b");
  EXPECT_FALSE(Decoder::build({dec::Fuse{}, dec::WordPiece{}}).ok());
  EXPECT_FALSE(Decoder::build({dec::Strip{"", 1, 0}}).ok());
}

Strings words_of(std::vector<PreTokenizerStep> steps, std::string_view text) {
  WordList list;
  list.words.push_back({text, true});
  EXPECT_TRUE(PreTokenizer(std::move(steps)).apply(list).ok());
  Strings words;
  for (const auto& word : list.words) words.emplace_back(word.text);
  return words;
}

TEST(PreTokenizer, SplitBehaviours) {
  const auto split = [](SplitBehavior behavior, bool invert = false) {
    return words_of({pretok::Split{*Regex::literal("-"), behavior, invert}}, "The-final--countdown");
  };
  EXPECT_EQ(split(SplitBehavior::kRemoved), (Strings{"The", "final", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kIsolated), (Strings{"The", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious), (Strings{"The-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext), (Strings{"The", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(SplitBehavior::kContiguous), (Strings{"The", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kRemoved, true), (Strings{"-", "-", "-"}));
}

TEST(PreTokenizer, ScriptsAndFixedLength) {
  const auto scripts = Regex::compile(unicode_scripts_pattern());
  ASSERT_TRUE(scripts.ok()) << scripts.status().to_string();
  EXPECT_EQ(words_of({pretok::Split{*scripts, SplitBehavior::kRemoved, true}}, "どこで生れ。Yes"),
            (Strings{"どこで生れ", "。", "Yes"}));
  EXPECT_EQ(words_of({pretok::Split{*scripts, SplitBehavior::kRemoved, true}}, "Apples are りんご 林檎"),
            (Strings{"Apples are ", "りんご 林檎"}));
  EXPECT_EQ(words_of({pretok::FixedLength{2}}, "abcäe"), (Strings{"ab", "cä", "e"}));
}

TEST(WordPatterns, EveryNameCompiles) {
  for (const char* name :
       {"default",     "llama-bpe", "llama3", "qwen2",  "qwen35",    "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "falcon",    "gpt-2",  "smollm", "starcoder", "tekken",       "gpt-4o",
        "llama4",      "kimi-k2",   "glm4",   "gemma4", "bloom",     "viking",       "bailingmoe2",
        "seed-coder",  "command-r", "mpt",    "olmo",   "dbrx",      "minimax-m2"}) {
    const auto pattern = gguf_word_pattern(name);
    ASSERT_TRUE(pattern.ok()) << name;
    const auto steps = split_steps(pattern->patterns, false);
    EXPECT_TRUE(steps.ok()) << name << ": " << steps.status().to_string();
  }
  EXPECT_EQ(gguf_word_pattern("odd").code(), StatusCode::kUnsupported);
}

TEST(WordPatterns, CasedWordsAndHan) {
  const auto words = [](const char* name, std::string_view text) {
    return words_of(*split_steps(gguf_word_pattern(name)->patterns, false), text);
  };
  EXPECT_EQ(words("gpt-4o", "HelloWorld don't 12345"), (Strings{"Hello", "World", " don't", " ", "123", "45"}));
  EXPECT_EQ(words("tekken", "don't 12"), (Strings{"don", "'t", " ", "1", "2"}));
  EXPECT_EQ(words("kimi-k2",
                  "ab\xE4\xB8\x80\xE4\xBA\x8C"
                  "cd"),
            (Strings{"ab", "\xE4\xB8\x80\xE4\xBA\x8C", "cd"}));
  EXPECT_EQ(words("gemma4", "a b\n\nc"), (Strings{"a b", "\n\n", "c"}));
}

}  // namespace
}  // namespace firstlight::text
