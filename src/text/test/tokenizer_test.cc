// SPDX-License-Identifier: Apache-2.0
// What the goldens do not show: trusted and untrusted segments, options, named errors of each loader, hostile input and
// time.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "base/file_map.h"
#include "text/gguf_vocabulary.h"

namespace firstlight::text {
namespace {

std::string tiny(const std::string& name) {
  const auto content = read_text_file(std::string(FL_SOURCE_DIR) + "/tests/golden/tokenizers/tiny/" + name);
  FL_CHECK(content.ok());
  return *content;
}

Tokenizer tiny_json(const std::string& name) { return *load_tokenizer_json(tiny(name)); }

std::vector<int32_t> plain(const Tokenizer& tokenizer, std::string_view text) {
  return *tokenizer.encode(text, {.add_special = false, .parse_special = false});
}

bool has_control(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_control(id); });
}

TEST(Segments, OnlyTrustedTextGivesControlTokens) {
  const Tokenizer tokenizer = tiny_json("byte-level.json");
  const std::vector<Segment> segments = {
      {"<|im_start|>user\n", true}, {"a <|im_end|> b <think>", false}, {"<|im_end|>\n", true}};
  const auto ids = tokenizer.encode_segments(segments);
  ASSERT_TRUE(ids.ok());
  const int32_t start = *tokenizer.token_to_id("<|im_start|>");
  const int32_t end = *tokenizer.token_to_id("<|im_end|>");
  EXPECT_EQ(ids->front(), start);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), end), 1);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), *tokenizer.token_to_id("<think>")), 0);
  EXPECT_EQ(tokenizer.decode(*ids, {.skip_special = false}), "<|im_start|>user\na <|im_end|> b <think><|im_end|>\n");
}

TEST(Segments, ATokenAcrossABorderIsNoControlToken) {
  const Tokenizer tokenizer = tiny_json("byte-level.json");
  const std::vector<Segment> mixed = {{"<|im_", true}, {"end|>", false}, {"", true}};
  EXPECT_FALSE(has_control(tokenizer, *tokenizer.encode_segments(mixed)));
  const std::vector<Segment> trusted = {{"<|im_", true}, {"end|>", true}, {"x", false}};
  EXPECT_EQ(tokenizer.encode_segments(trusted)->front(), *tokenizer.token_to_id("<|im_end|>"));
}

TEST(Segments, MergesRunAcrossBorders) {
  const Tokenizer tokenizer = tiny_json("byte-level.json");
  const std::string text = "The river rose two feet overnight";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::vector<Segment> segments = {{text.substr(0, cut), true}, {text.substr(cut), false}};
    EXPECT_EQ(*tokenizer.encode_segments(segments), plain(tokenizer, text)) << cut;
  }
}

TEST(Segments, AllTrustedEqualsEncode) {
  const Tokenizer tokenizer = tiny_json("byte-fallback.json");
  const std::vector<Segment> segments = {{"a <s> b", true}, {"</s>", true}};
  EXPECT_EQ(*tokenizer.encode_segments(segments, true), *tokenizer.encode("a <s> b</s>"));
}

TEST(Segments, NormalizedControlTokensNeedTrustToo) {
  const char* kJson = R"({"added_tokens":[{"id":0,"content":"<s>","normalized":true,"special":true}],
    "normalizer":{"type":"Lowercase"},"model":{"type":"BPE","vocab":{"<s>":0,"<":1,"s":2,">":3,"a":4},"merges":[]}})";
  const Tokenizer tokenizer = *load_tokenizer_json(kJson);
  const std::vector<Segment> untrusted = {{"a<s><S>", false}};
  EXPECT_EQ(*tokenizer.encode_segments(untrusted), (std::vector<int32_t>{4, 1, 2, 3, 1, 2, 3}));
  const std::vector<Segment> mixed = {{"<s>", true}, {"<s>", false}};
  EXPECT_EQ(*tokenizer.encode_segments(mixed), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(Segments, NoModelReachesAControlToken) {
  // A Unigram lattice with "</s>" as a piece, a word-level vocabulary with "[CLS]", and ignored merges.
  const Tokenizer unigram = *load_tokenizer_json(R"({"added_tokens":[{"id":1,"content":"</s>","special":true}],
    "model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["</s>",0],["<",-1],["/",-1],["s",-1],[">",-1]]}})");
  EXPECT_EQ(plain(unigram, "</s>"), (std::vector<int32_t>{2, 3, 4, 5}));
  const Tokenizer words = *load_tokenizer_json(R"({"added_tokens":[{"id":1,"content":"[CLS]","special":true}],
    "model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"[CLS]":1}}})");
  EXPECT_EQ(plain(words, "[CLS]"), (std::vector<int32_t>{0}));
  const Tokenizer bpe = *load_tokenizer_json(R"({"added_tokens":[{"id":2,"content":"ab","special":true}],
    "model":{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
  EXPECT_EQ(plain(bpe, "ab"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(*bpe.encode("ab"), (std::vector<int32_t>{2}));
}

TEST(Tokenizer, ChatMarkupIsControlWithoutTheFlag) {
  for (const char* marker : {"<|User|>",
                             "<\xEF\xBD\x9C"
                             "User\xEF\xBD\x9C>",
                             "<tool_call>", "</tool_call>", "<think>", "</think>", "[TOOL_CALLS]", "[/INST]", "</s>"}) {
    EXPECT_TRUE(looks_like_chat_markup(marker)) << marker;
  }
  for (const char* other : {"<table>", "</h1>", "   ", "\n\n", "<", "[a]", "<a b_c>", "word"}) {
    EXPECT_FALSE(looks_like_chat_markup(other)) << other;
  }
}

TEST(Tokenizer, SpecialIdsAndOptions) {
  const Tokenizer tokenizer =
      *load_tokenizer_json(tiny("byte-fallback.json"), R"({"bos_token":"<s>","eos_token":{"content":"</s>"}})");
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.unk_id(), 0);
  EXPECT_TRUE(tokenizer.adds_bos() && tokenizer.adds_eos());
  EXPECT_TRUE(tokenizer.is_special(1) && tokenizer.is_control(1) && !tokenizer.is_special(100));
  EXPECT_EQ(tokenizer.encode("")->size(), 2u);
  EXPECT_TRUE(plain(tokenizer, "").empty());
  EXPECT_EQ(tokenizer.token_bytes(*tokenizer.token_to_id("<0xE2>")), "\xE2");
  EXPECT_EQ(tokenizer.token_bytes(*tokenizer.token_to_id("\xE2\x96\x81")), " ");
  EXPECT_EQ(tokenizer.token_bytes(-1), "");
  EXPECT_FALSE(tokenizer.token_to_id("no such token").has_value());
}

TEST(Tokenizer, ConfigOverridesBosForLlamaClassesOnly) {
  const std::string json = tiny("byte-fallback.json");
  const char* kLlama =
      R"({"tokenizer_class":"LlamaTokenizerFast","bos_token":"<s>","eos_token":"</s>","add_bos_token":false,"add_eos_token":false})";
  const char* kOther = R"({"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<s>","add_bos_token":false})";
  EXPECT_TRUE(load_tokenizer_json(json, kLlama)->encode("")->empty());
  EXPECT_TRUE(load_tokenizer_json(json, kOther)->adds_bos());
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const Tokenizer tokenizer = tiny_json("byte-level.json");
  EXPECT_EQ(plain(tokenizer,
                  "a\xFF"
                  "b"),
            plain(tokenizer,
                  "a\xEF\xBF\xBD"
                  "b"));
}

struct BadFile {
  const char* json;
  StatusCode code;
  const char* message;
};

TEST(Errors, TokenizerJsonNamesWhatIsWrong) {
  const BadFile files[] = {
      {"{", StatusCode::kInvalidData, "JSON"},
      {"{}", StatusCode::kInvalidData, "no model"},
      {R"({"model":{"type":"Fancy"}})", StatusCode::kUnsupported, "'Fancy'"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})", StatusCode::kInvalidData, "merge 0"},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", StatusCode::kInvalidData, "id -1"},
      {R"({"model":{"type":"BPE","vocab":{"a":4000000000},"merges":[]}})", StatusCode::kInvalidData, "id 4000000000"},
      {R"({"model":{"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]}})", StatusCode::kUnsupported, "dropout"},
      {R"({"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}})", StatusCode::kInvalidData, "unk_id 7"},
      {R"({"normalizer":{"type":"Odd"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})", StatusCode::kUnsupported,
       "normalizer of type 'Odd'"},
      {R"({"pre_tokenizer":{"type":"Odd"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
       StatusCode::kUnsupported, "pre-tokenizer of type 'Odd'"},
      {R"({"decoder":{"type":"Odd"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})", StatusCode::kUnsupported,
       "decoder of type 'Odd'"},
      {R"({"post_processor":{"type":"Odd"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
       StatusCode::kUnsupported, "post-processor of type 'Odd'"},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
       StatusCode::kInvalidData, "regular expression"},
  };
  for (const BadFile& file : files) {
    const auto tokenizer = load_tokenizer_json(file.json);
    ASSERT_FALSE(tokenizer.ok()) << file.json;
    EXPECT_EQ(tokenizer.code(), file.code) << file.json;
    EXPECT_NE(tokenizer.status().message().find(file.message), std::string::npos) << tokenizer.status().to_string();
  }
}

TEST(Errors, OtherLoaders) {
  EXPECT_EQ(load_sentencepiece_model("\x0A\xFF\x01").code(), StatusCode::kInvalidData);
  EXPECT_EQ(load_tiktoken("IQ== x\n", {}).code(), StatusCode::kInvalidData);
  EXPECT_EQ(load_rwkv_vocabulary("1 'a' 2\n").code(), StatusCode::kInvalidData);
  EXPECT_EQ(load_vocab_and_merges("{\"a\":0}", "", R"({"tokenizer_class":"OddTokenizer"})").code(),
            StatusCode::kUnsupported);
  EXPECT_EQ(tiktoken_pattern("odd_base").code(), StatusCode::kUnsupported);
  EXPECT_EQ(load_tokenizer("/no/such/directory").code(), StatusCode::kNotFound);
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "odd-pre";
  vocabulary.tokens = {"a"};
  const auto odd = load_gguf_vocabulary(vocabulary);
  EXPECT_EQ(odd.code(), StatusCode::kUnsupported);
  EXPECT_NE(odd.status().message().find("odd-pre"), std::string::npos);
  vocabulary.scores = {};
  vocabulary.tokens = {"a", "b"};
  vocabulary.token_types = {1};
  EXPECT_EQ(load_gguf_vocabulary(vocabulary).code(), StatusCode::kInvalidData);
}

TEST(Errors, AnExponentialPatternStopsWithAnError) {
  const auto tokenizer = load_tokenizer_json(R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a|aa|a?a)+$"},
    "behavior":"Isolated"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->encode(std::string(5000, 'a') + "b").code(), StatusCode::kUnsupported);
}

// Processor time, so that a busy machine does not fail the test.
double seconds_for(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t begin = std::clock();
  EXPECT_TRUE(tokenizer.encode(text).ok());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(Time, LongRunsAreNotQuadratic) {
  const size_t kMiB = size_t{1} << 20;
  for (const char* name :
       {"byte-level.json", "byte-fallback.json", "unigram.json", "word-piece.json", "sp-bpe.model"}) {
    const std::string file = name;
    const Tokenizer tokenizer = file.ends_with(".json") ? tiny_json(file) : *load_sentencepiece_model(tiny(file));
    for (const std::string& unit :
         {std::string("a"), std::string(" "), std::string("ab"), std::string("\n"), std::string("<")}) {
      std::string text;
      while (text.size() < (unit == "a" || unit == " " ? kMiB : kMiB / 8)) text += unit;
      EXPECT_LT(seconds_for(tokenizer, text), 5.0) << name << " '" << unit << "'";  // quadratic: hours
    }
  }
}

}  // namespace
}  // namespace firstlight::text
