// SPDX-License-Identifier: Apache-2.0
// Constraints as requests see them, with a small vocabulary: start and end, stop tokens, sharing and forgetting of
// tables, limits at work, and structures.
#include "text/grammar/constraint.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"
#include "text/grammar/token_mask.h"

namespace firstlight::text::grammar {
namespace {

using Kind = ConstraintSpec::Kind;

constexpr int32_t kEnd = 260;

// The bytes, a few pieces of two bytes, and two control tokens.
Tokenizer tokenizer() {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  int id = 0;
  const auto add = [&](const std::string& bytes) {
    const auto a = static_cast<unsigned char>(bytes[0]);
    const auto b = static_cast<unsigned char>(bytes.size() > 1 ? bytes[1] : 0);
    ranks +=
        {kDigits[a >> 2], kDigits[((a & 3) << 4) | (b >> 4)], bytes.size() > 1 ? kDigits[(b & 15) << 2] : '=', '='};
    ranks += " " + std::to_string(id++) + "\n";
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* pair : {"ab", "\xC3\xA9", "{\"", "\xA9x"}) add(pair);
  TiktokenSpec spec;
  spec.pattern = "[\\s\\S]";
  spec.special_tokens = {{"<end>", kEnd}, {"</think>", kEnd + 1}};
  auto made = load_tiktoken(ranks, spec);
  FL_CHECK(made.ok());
  return std::move(*made);
}

std::string allowed_text(request::TokenMask& mask, const Tokenizer& tokenizer) {
  std::vector<uint8_t> allowed(kEnd + 2, 1);
  const Status status = mask.apply(allowed);
  if (!status.ok()) return "error: " + status.message();
  std::string text;
  for (size_t id = 0; id < allowed.size(); ++id) {
    if (allowed[id]) text += (text.empty() ? "" : " ") + std::string(tokenizer.token_text(static_cast<int32_t>(id)));
  }
  return text;
}

std::shared_ptr<request::TokenMask> mask_of(ConstraintCompiler& compiler, Kind kind, const std::string& text) {
  auto constraint = compiler.compile({kind, text});
  EXPECT_TRUE(constraint.ok()) << constraint.status().message();
  auto mask = (*constraint)->make_mask();
  mask->set_stop_tokens(std::vector<int32_t>{kEnd});
  return mask;
}

TEST(Constraint, StopTokensComeWhereItMayEndAndAloneWhereItMust) {
  const Tokenizer vocabulary = tokenizer();
  ConstraintCompiler compiler(vocabulary);
  const auto mask = mask_of(compiler, Kind::kRegex, "ab?c?");
  EXPECT_EQ(allowed_text(*mask, vocabulary), "a ab");
  mask->accept('a');
  EXPECT_EQ(allowed_text(*mask, vocabulary), "b c <end>");
  EXPECT_FALSE(mask->is_over());
  mask->accept('c');
  EXPECT_EQ(allowed_text(*mask, vocabulary), "<end>");
  EXPECT_TRUE(mask->is_over());
}

TEST(Constraint, CharactersMayBeCutAcrossTokens) {
  const Tokenizer vocabulary = tokenizer();
  ConstraintCompiler compiler(vocabulary);
  const auto mask = mask_of(compiler, Kind::kRegex, "éx|è");
  std::vector<uint8_t> allowed(kEnd + 2, 1);
  ASSERT_TRUE(mask->apply(allowed).ok());
  EXPECT_TRUE(allowed[0xC3] && allowed[257]);
  EXPECT_EQ(std::count(allowed.begin(), allowed.end(), 1), 2);
  mask->accept(0xC3);
  allowed.assign(kEnd + 2, 1);
  ASSERT_TRUE(mask->apply(allowed).ok());
  EXPECT_TRUE(allowed[0xA9] && allowed[0xA8] && allowed[259]) << "the rest of a character, alone and with what follows";
  EXPECT_EQ(std::count(allowed.begin(), allowed.end(), 1), 3);
}

TEST(Constraint, WhatCannotBeSpelledOrFollowedIsAnError) {
  const Tokenizer vocabulary = tokenizer();
  ConstraintCompiler compiler(vocabulary);
  auto constraint = compiler.compile({Kind::kRegex, "a"});
  const auto mask = (*constraint)->make_mask();
  mask->accept('a');
  EXPECT_NE(allowed_text(*mask, vocabulary).find("no token of the vocabulary"), std::string::npos) << "no stop token";
  const auto ambiguous = mask_of(compiler, Kind::kRegex, "(((.{0,1000}){0,1000}a.?){2,1000}b?){2,1000}");
  std::string last;
  for (int i = 0; i < 4000 && !last.starts_with("error"); ++i) {
    last = allowed_text(*ambiguous, vocabulary);
    ambiguous->accept('a');
  }
  EXPECT_TRUE(!last.starts_with("error") || last.find("too ambiguous") != std::string::npos) << last;
}

TEST(Constraint, TablesAreForgottenAndMasksMoveOver) {
  const Tokenizer vocabulary = tokenizer();
  const auto texts = *TokenTexts::build(vocabulary);
  const auto automaton = *compile_automaton({Kind::kJsonObject, ""});
  const auto budget = std::make_shared<TableBudget>();
  // So small that every step makes a new table.
  const auto small = std::make_shared<CompiledConstraint>(automaton, texts, budget, MaskLimits{.max_bytes = 2000});
  const auto large = std::make_shared<CompiledConstraint>(automaton, texts, budget);
  const auto one = small->make_mask(true), other = small->make_mask(true), wanted = large->make_mask(true);
  const std::string text = R"({"a":[1,{"b":"é"}],"c":-1.5e3})";
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string now = allowed_text(*wanted, vocabulary);
    ASSERT_EQ(allowed_text(*one, vocabulary), now) << i;
    if (i % 5 == 0) {
      ASSERT_EQ(allowed_text(*other, vocabulary), now) << i;
    }
    for (const auto& mask : {one, other, wanted}) mask->accept(static_cast<unsigned char>(text[i]));
  }
  EXPECT_TRUE(one->is_over() && other->is_over() && wanted->is_over());
}

TEST(Constraint, BudgetsAreGivenBack) {
  const auto budget = std::make_shared<TableBudget>();
  {
    const Tokenizer vocabulary = tokenizer();
    const auto constraint = std::make_shared<CompiledConstraint>(*compile_automaton({Kind::kJsonObject, ""}),
                                                                 *TokenTexts::build(vocabulary), budget);
    const auto mask = constraint->make_mask(true);
    const size_t before = budget->used_bytes;
    EXPECT_GT(before, 0u);
    EXPECT_EQ(allowed_text(*mask, vocabulary), "{ {\"");
    EXPECT_GT(budget->used_bytes, before);
  }
  EXPECT_EQ(budget->used_bytes, 0u);
}

TEST(Constraint, OneTextIsCompiledOnceAndThreadsMayShareIt) {
  const Tokenizer vocabulary = tokenizer();
  ConstraintCompiler compiler(vocabulary);
  const auto first = *compiler.compile({Kind::kRegex, "[a-e]{1,300}"});
  EXPECT_EQ(first, *compiler.compile({Kind::kRegex, "[a-e]{1,300}"}));
  EXPECT_NE(first, *compiler.compile({Kind::kRegex, "[a-e]{1,301}"}));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(compiler.compile({Kind::kRegex, "a{" + std::to_string(i) + ",}"}).ok());
  EXPECT_NE(first, *compiler.compile({Kind::kRegex, "[a-e]{1,300}"})) << "the oldest are dropped";
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto mask = first->make_mask();
      for (int i = 0; i < 200; ++i) {
        std::vector<uint8_t> allowed(kEnd + 2, 1);
        ASSERT_TRUE(mask->apply(allowed).ok());
        ASSERT_TRUE(allowed['a'] && !allowed['f']);
        mask->accept('a' + (i + t) % 5);
      }
    });
  }
}

// A structure's text is the control token where one has it; other constraints never see these.
TEST(Constraint, AStructureHasControlTokensAndFreeText) {
  const Tokenizer vocabulary = tokenizer();
  ConstraintCompiler compiler(vocabulary);
  const auto mask = mask_of(compiler, Kind::kStructure, R"([{"without": "</think>"}, "</think>", {"regex": "ab"}])");
  std::vector<uint8_t> allowed(kEnd + 2, 1);
  ASSERT_TRUE(mask->apply(allowed).ok());
  EXPECT_FALSE(allowed[kEnd]) << "no end within thoughts";
  EXPECT_TRUE(allowed[kEnd + 1] && allowed['x'] && allowed['<'] && !allowed[0xFF]);
  for (const char c : std::string_view("so: </thin</think")) mask->accept(static_cast<unsigned char>(c));
  allowed.assign(kEnd + 2, 1);
  ASSERT_TRUE(mask->apply(allowed).ok());
  EXPECT_FALSE(allowed['>']) << "the mark is the token, not its letters";
  EXPECT_TRUE(allowed['<'] && allowed['x']);
  mask->accept(kEnd + 1);
  EXPECT_EQ(allowed_text(*mask, vocabulary), "a ab");
  EXPECT_FALSE(mask->is_over());
  mask->accept(256);
  EXPECT_TRUE(mask->is_over());
  EXPECT_EQ(allowed_text(*mask, vocabulary), "<end>");
  // A token that ends outputs may be the structure's own.
  const auto ends = mask_of(compiler, Kind::kStructure, R"(["a", "<end>"])");
  ends->accept('a');
  EXPECT_EQ(allowed_text(*ends, vocabulary), "<end>");
  const auto plain = mask_of(compiler, Kind::kRegex, "<end>|</think>");
  EXPECT_EQ(allowed_text(*plain, vocabulary), "<");
}

TEST(Constraint, StructuresArePutTogether) {
  const Tokenizer vocabulary = tokenizer();
  const auto takes = [&](const std::string& structure, std::string_view text) {
    ConstraintCompiler compiler(vocabulary);
    const auto mask = mask_of(compiler, Kind::kStructure, structure);
    for (const char c : text) {
      std::vector<uint8_t> allowed(kEnd + 2, 1);
      if (!mask->apply(allowed).ok() || !allowed[static_cast<unsigned char>(c)]) return false;
      mask->accept(static_cast<unsigned char>(c));
    }
    std::vector<uint8_t> allowed(kEnd + 2, 1);
    return mask->apply(allowed).ok() && allowed[kEnd] != 0;
  };
  const std::string members = R"x(["(", {"separated": [{"optional": "a"}, "b", {"optional": "c"}], "by": ", "}, ")"])x";
  for (const char* text : {"(b)", "(a, b)", "(b, c)", "(a, b, c)"}) EXPECT_TRUE(takes(members, text)) << text;
  for (const char* text : {"()", "(a)", "(a, c)", "(, b)", "(b, )", "(a b)"})
    EXPECT_FALSE(takes(members, text)) << text;
  const std::string all_optional = R"({"separated": [{"optional": "a"}, {"optional": "b"}], "by": ","})";
  for (const char* text : {"", "a", "b", "a,b"}) EXPECT_TRUE(takes(all_optional, text)) << text;
  const std::string two =
      R"([{"any": [{"json_schema": "{\"type\": \"integer\"}"}, {"choice": "[\"x\"]"}]}, {"repeat": "."}])";
  for (const char* text : {"12", "x", "-3..", "x."}) EXPECT_TRUE(takes(two, text)) << text;
  for (const char* text : {"", ".", "x1", "1.5"}) EXPECT_FALSE(takes(two, text)) << text;
  const std::string plain =
      R"([{"json_schema": "{\"type\": \"string\"}", "spelling": {"plain": true, "mark": "</p>"}}, "</p>"])";
  for (const char* text : {"</p>", "a <b>\n</q></</p</p>", "\"</p>"}) EXPECT_TRUE(takes(plain, text)) << text;
  for (const char* text : {"a</p></p>", "a"}) EXPECT_FALSE(takes(plain, text)) << text;
  ConstraintCompiler compiler(vocabulary);
  const auto fault = [&](const char* structure) { return compiler.compile({Kind::kStructure, structure}).status(); };
  EXPECT_EQ(fault(R"({"regex": "(", "of": "tool 'f'"})").message().find("tool 'f'"), 0u);
  EXPECT_EQ(fault(R"({"no such": "x"})").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fault("[1]").code(), StatusCode::kInvalidArgument);
}

TEST(Constraint, RefusesATokenizerWhoseTextIsNotItsTokensJoined) {
  const Json json = {{"model",
                      {{"type", "BPE"},
                       {"vocab", {{"a</w>", 0}, {"a", 1}}},
                       {"merges", Json::array()},
                       {"end_of_word_suffix", "</w>"}}},
                     {"decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}}};
  const auto loaded = load_tokenizer_json(dump_json(json));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ConstraintCompiler compiler(*loaded);
  EXPECT_EQ(compiler.compile({Kind::kRegex, "a"}).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace firstlight::text::grammar
