// SPDX-License-Identifier: Apache-2.0
// Constrained output with every kind of tokenizer: what is drawn through a mask is always valid (judged by other code
// than the mask's), a mask is what a token-by-token check says, and the tokenizer's own way of writing a valid text is
// always open.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "base/file_map.h"
#include "base/json.h"
#include "gguf_source.h"
#include "golden_file.h"
#include "text/grammar/mask_table.h"
#include "text/grammar/token_mask.h"
#include "text/tokenizers/regex.h"
#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

using Kind = ConstraintSpec::Kind;

constexpr const char* kSchema = R"({"type":"object","properties":{
  "name":{"type":"string","minLength":1,"maxLength":12},
  "age":{"type":"integer","minimum":0,"maximum":150},
  "tags":{"type":"array","items":{"enum":["α","b\"c","日本"]},"maxItems":3},
  "note":{"anyOf":[{"type":"null"},{"type":"string","pattern":"^[é-ü]{2,4}$"}]},
  "sub":{"$ref":"#/$defs/point"}},"required":["name","age","sub"],
  "$defs":{"point":{"type":"object","properties":{"x":{"type":"number"},"on":{"type":"boolean"}},
                    "required":["x"],"additionalProperties":false}}})";

// By hand, for this schema alone.
bool keeps_to_schema(const std::string& text) {
  const auto json = parse_json(text);
  if (!json.ok() || !json->is_object()) return false;
  const auto count = [](const Json& string) {
    const auto& bytes = string.get_ref<const std::string&>();
    return std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xC0) != 0x80; });
  };
  std::set<std::string> seen;
  for (const auto& [key, value] : json->items()) {
    if (!seen.insert(key).second) return false;
    if (key == "name") {
      if (!value.is_string() || count(value) < 1 || count(value) > 12) return false;
    } else if (key == "age") {
      if (!value.is_number_integer() || value < 0 || value > 150) return false;
    } else if (key == "tags") {
      if (!value.is_array() || value.size() > 3) return false;
      for (const Json& tag : value) {
        if (tag != "α" && tag != "b\"c" && tag != "日本") return false;
      }
    } else if (key == "note") {
      if (!value.is_null() && (!value.is_string() || count(value) < 2 || count(value) > 4)) return false;
    } else if (key == "sub") {
      if (!value.is_object() || !value.contains("x") || !value["x"].is_number()) return false;
      if (value.size() != 1 + value.count("on") || (value.contains("on") && !value["on"].is_boolean())) return false;
    } else {
      return false;
    }
  }
  return seen.count("name") && seen.count("age") && seen.count("sub");
}

bool matches(const char* pattern, const std::string& text) {
  const auto regex = Regex::compile("\\A(?:" + std::string(pattern) + ")\\z");
  std::vector<Span> found;
  return regex.ok() && regex->find_all(text, found).ok() && !found.empty() && found[0].end == text.size();
}

bool is_balanced(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0 || (c != '(' && c != ')' && c != 'a' && c != ' ')) return false;
  }
  return depth == 0;
}

constexpr const char* kWords = "(the|an?|of|in)( (the|[a-f]{2,5}|of)){0,4}";
constexpr const char* kScripts = "(日本語|é|😀|ß){1,6}";

struct Case {
  ConstraintSpec spec;
  bool (*is_valid)(const std::string& text);
  std::vector<std::string> valid;  // some texts
  bool any_tokenizer = false;      // words alone: vocabularies without a fallback can write them too
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{Kind::kRegex, kWords},
       [](const std::string& text) { return matches(kWords, text); },
       {"the of", "in abc the", "a"},
       true},
      {{Kind::kJsonSchema, kSchema},
       keeps_to_schema,
       {R"({"name":"Zoë \u12aB\n","age":150,"sub":{"x":-1.5e3}})",
        R"({"name": "  two  ", "age": 7, "tags": ["日本", "b\"c"], "note": "éü", "sub": {"x": 0, "on": false}})"}},
      {{Kind::kRegex, kScripts}, [](const std::string& text) { return matches(kScripts, text); }, {"日本語😀éß"}},
      {{Kind::kChoice, R"(["yes","yes, please","no","née 😀"," padded"])"},
       [](const std::string& text) {
         return text == "yes" || text == "yes, please" || text == "no" || text == "née 😀" || text == " padded";
       },
       {"yes, please", "née 😀", " padded"}},
      {{Kind::kGrammar, "root ::= list\nlist ::= (\"(\" \" \"? (list | \"a\"{1,3}) \")\")+"},
       is_balanced,
       {"(a)((( aaa)))(aa)", "( ( a))"}},
  };
  return all;
}

struct Source {
  const char* name;
  const char* path;  // under ../shared/data
  int spells = 2;    // 2: every text, 1: English words, 0: little
};

Result<Tokenizer> load(const std::string& path) {
  if (path.ends_with(".gguf")) {
    const auto map = FL_TRY(FileMap::open(path));
    return load_gguf_vocabulary(FL_TRY(read_gguf_vocabulary(FL_TRY(formats::GgufFile::parse(map.bytes())))));
  }
  if (std::filesystem::is_directory(path)) return load_tokenizer(path);
  const std::string content = FL_TRY(read_text_file(path));
  if (path.ends_with(".json")) return load_tokenizer_json(content);
  if (path.ends_with(".model")) return load_sentencepiece_model(content);
  if (path.ends_with(".txt")) return load_rwkv_vocabulary(content);
  TiktokenSpec spec;
  spec.pattern = *tiktoken_pattern("llama3");
  return load_tiktoken(content, spec);
}

// One output as an engine would make it, with a stop token beyond the vocabulary.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, const Constraint& constraint)
      : mask_(constraint.make_mask()), allowed_(static_cast<size_t>(tokenizer.vocab_size()) + 1) {
    mask_->set_stop_tokens(std::vector<int32_t>{stop()});
  }
  int32_t stop() const { return static_cast<int32_t>(allowed_.size()) - 1; }
  bool look() {
    std::fill(allowed_.begin(), allowed_.end(), uint8_t{1});
    return mask_->apply(allowed_).ok();
  }
  bool allows(int32_t id) const { return allowed_[static_cast<size_t>(id)] != 0; }
  std::vector<int32_t> choices() const {
    std::vector<int32_t> ids;
    for (size_t id = 0; id < allowed_.size(); ++id) {
      if (allowed_[id]) ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
  }
  request::TokenMask& mask() { return *mask_; }
  const std::vector<uint8_t>& allowed() const { return allowed_; }

 private:
  std::shared_ptr<request::TokenMask> mask_;
  std::vector<uint8_t> allowed_;
};

class GrammarMasks : public ::testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    const std::string path = golden::shared() + GetParam().path;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: " << GetParam().path;
    auto loaded = load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_.emplace(std::move(*loaded));
    compiler_.emplace(*tokenizer_);
  }

  // A random token, with a leaning to what closes things.
  int32_t pick(const std::vector<int32_t>& choices, std::mt19937& random) const {
    if (random() % 10 < 4) {
      for (const int32_t id : choices) {
        const std::string bytes = tokenizer_->token_bytes(id);
        if (bytes == "}" || bytes == "\"" || bytes == "," || bytes == "]" || bytes == ")") return id;
      }
    }
    return choices[random() % choices.size()];
  }

  std::optional<Tokenizer> tokenizer_;
  std::optional<ConstraintCompiler> compiler_;
};

TEST_P(GrammarMasks, WhatIsDrawnIsValid) {
  std::mt19937 random(11);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.spec.text.substr(0, 40));
    const auto constraint = compiler_->compile(one.spec);
    ASSERT_TRUE(constraint.ok()) << constraint.status().message();
    int num_finished = 0;
    for (int i = 0; i < 12; ++i) {
      Writer writer(*tokenizer_, **constraint);
      std::vector<int32_t> ids;
      bool ended = false;
      while (ids.size() < 150 && !ended && writer.look()) {
        const auto choices = writer.choices();
        ASSERT_FALSE(choices.empty());
        const bool may_stop = choices.back() == writer.stop();
        if (may_stop && (choices.size() == 1 || random() % 3 == 0)) {
          ended = true;
          break;
        }
        ids.push_back(pick(choices, random));
        if (ids.back() == writer.stop()) {
          ids.pop_back();
          ended = true;
          break;
        }
        writer.mask().accept(ids.back());
        ended = writer.mask().is_over();
      }
      if (!ended) continue;
      const std::string text = tokenizer_->decode(ids);
      EXPECT_TRUE(one.is_valid(text)) << text;
      num_finished += 1;
    }
    if (GetParam().spells == 2 || (GetParam().spells == 1 && one.any_tokenizer)) {
      EXPECT_GT(num_finished, 2);
    }
  }
}

TEST_P(GrammarMasks, EqualsACheckOfEveryToken) {
  std::mt19937 random(12);
  const auto texts = TokenTexts::build(*tokenizer_);
  ASSERT_TRUE(texts.ok());
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.spec.text.substr(0, 40));
    const auto constraint = compiler_->compile(one.spec);
    ASSERT_TRUE(constraint.ok());
    Matcher plain(*compile_automaton(one.spec));
    Writer writer(*tokenizer_, **constraint);
    StateId state = plain.start();
    for (int step = 0; step < 7 && writer.look(); ++step) {
      const TokenBits bits = allowed_plainly(plain, **texts, state, step == 0);
      for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
        const auto i = static_cast<size_t>(id);
        const bool says = (bits.words[i / 64] >> (i % 64)) & 1;
        const bool is_empty_start = step == 0 && writer.allows(id) && (*texts)->bytes(id, true).empty();
        ASSERT_TRUE(writer.allows(id) == says || is_empty_start) << tokenizer_->token_text(id) << " at step " << step;
        ASSERT_FALSE(tokenizer_->is_control(id) && writer.allows(id)) << tokenizer_->token_text(id);
      }
      ASSERT_EQ(writer.allows(writer.stop()), plain.may_end(state));
      auto choices = writer.choices();
      if (choices.back() == writer.stop()) choices.pop_back();
      if (choices.empty()) break;
      // A token without bytes at the start changes what follows; the plain walk has no word for it.
      const int32_t id = pick(choices, random);
      const auto bytes = (*texts)->bytes(id, step == 0);
      if (bytes.empty()) break;
      state = plain.read(state, bytes);
      writer.mask().accept(id);
    }
  }
}

TEST_P(GrammarMasks, TheTokenizersOwnWayIsOpen) {
  int num_tried = 0;
  for (const Case& one : cases()) {
    const auto constraint = compiler_->compile(one.spec);
    ASSERT_TRUE(constraint.ok());
    for (const std::string& text : one.valid) {
      ASSERT_TRUE(one.is_valid(text)) << text;
      const auto ids = tokenizer_->encode(text, {.add_special = false});
      // Some tokenizers change a text (lower case, spaces), some can not write it.
      if (!ids.ok() || tokenizer_->decode(*ids) != text) continue;
      ++num_tried;
      Writer writer(*tokenizer_, **constraint);
      for (const int32_t id : *ids) {
        ASSERT_TRUE(writer.look()) << text;
        ASSERT_TRUE(writer.allows(id)) << tokenizer_->token_text(id) << " of " << text;
        writer.mask().accept(id);
      }
      ASSERT_TRUE(writer.mask().is_over() || writer.look());
      EXPECT_TRUE(writer.mask().is_over() || writer.allows(writer.stop())) << text;
    }
  }
  EXPECT_GE(num_tried, GetParam().spells == 2 ? 8 : GetParam().spells);
}

// A thought, its end and a constrained text: the end is a control token, or text.
TEST_P(GrammarMasks, AStructureHoldsBehindItsMark) {
  std::vector<std::string> marks = {"</think>"};
  for (int32_t id = 0; id < tokenizer_->vocab_size() && marks.size() < 2; ++id) {
    const std::string text(tokenizer_->token_text(id));
    if (is_mark_token(*tokenizer_, id) && text.size() > 2 && text.ends_with('>')) marks.push_back(text);
  }
  std::mt19937 random(13);
  int num_tried = 0;
  for (const std::string& mark : marks) {
    SCOPED_TRACE(mark);
    const Json structure = Json::array({{{"without", mark}}, mark, {{"regex", kWords}}});
    const auto constraint = compiler_->compile({Kind::kStructure, dump_json(structure)});
    ASSERT_TRUE(constraint.ok()) << constraint.status().message();
    // The tokenizer's own way of writing such a text.
    const std::string whole = "so in the" + mark + "the of";
    const auto ids = tokenizer_->encode(whole, {.add_special = false});
    const auto mark_id = tokenizer_->token_to_id(mark);
    const bool is_token = mark_id && is_mark_token(*tokenizer_, *mark_id);
    const bool is_own = ids.ok() && tokenizer_->decode(*ids, {.skip_special = false}) == whole;
    if (is_own && (!is_token || std::find(ids->begin(), ids->end(), *mark_id) != ids->end())) {
      ++num_tried;
      Writer writer(*tokenizer_, **constraint);
      for (const int32_t id : *ids) {
        ASSERT_TRUE(writer.look());
        ASSERT_TRUE(writer.allows(id)) << tokenizer_->token_text(id);
        ASSERT_FALSE(writer.allows(writer.stop()) && &id < &(*ids)[3]) << "no end within the thought";
        writer.mask().accept(id);
      }
      ASSERT_TRUE(writer.look());
      EXPECT_TRUE(writer.allows(writer.stop()));
    }
    if (!is_token) continue;
    for (int i = 0; i < 4; ++i) {
      Writer writer(*tokenizer_, **constraint);
      std::vector<int32_t> drawn;
      for (bool is_behind = false; drawn.size() < 60 && writer.look();) {
        const auto choices = writer.choices();
        if (is_behind && choices.back() == writer.stop()) break;
        const bool may_close = !is_behind && writer.allows(*mark_id) && drawn.size() > 5;
        drawn.push_back(may_close && random() % 3 == 0 ? *mark_id : choices[random() % choices.size()]);
        is_behind = is_behind || drawn.back() == *mark_id;
        writer.mask().accept(drawn.back());
      }
      const std::string text = tokenizer_->decode(drawn, {.skip_special = false});
      const size_t at = text.find(mark);
      ASSERT_NE(at, std::string::npos) << text;
      EXPECT_TRUE(matches(kWords, text.substr(at + mark.size())) || GetParam().spells < 2) << text;
    }
  }
  EXPECT_GE(num_tried, GetParam().spells == 2 ? 1 : 0);
}

// Times per mask, for the table of docs/structured_output.md: --gtest_also_run_disabled_tests.
TEST_P(GrammarMasks, DISABLED_Times) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
  const auto begin = Clock::now();
  ASSERT_TRUE(compiler_->compile({Kind::kRegex, "a"}).ok());
  std::printf("%s: %d tokens, vocabulary read in %.0f ms\n", GetParam().name, tokenizer_->vocab_size(),
              us(Clock::now() - begin) / 1000);
  const std::vector<std::pair<const char*, ConstraintSpec>> specs = {{"schema", {Kind::kJsonSchema, kSchema}},
                                                                     {"json_object", {Kind::kJsonObject, ""}},
                                                                     {"regex", {Kind::kRegex, "[^x]{1,200}"}}};
  const std::string text = R"({"name":"Some words x","age":41,"tags":["日本","α"],"sub":{"x":3.25,"on":true}})";
  for (const auto& [name, spec] : specs) {
    const auto compile_begin = Clock::now();
    const auto constraint = compiler_->compile(spec);
    const double compile_us = us(Clock::now() - compile_begin);
    std::vector<double> times;
    const auto ids = *tokenizer_->encode(text, {.add_special = false});
    for (int round = 0; round < 20; ++round) {
      Writer writer(*tokenizer_, **constraint);
      for (const int32_t id : ids) {
        const auto start = Clock::now();
        const bool ok = writer.look();
        times.push_back(us(Clock::now() - start));
        if (!ok || !writer.allows(id)) break;
        writer.mask().accept(id);
      }
    }
    std::vector<double> first(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 20));
    std::sort(times.begin(), times.end());
    std::sort(first.begin(), first.end());
    std::printf("  %-12s compiled in %.0f us; per mask: median %.0f us, worst %.0f us; first time: median %.0f us\n",
                name, compile_us, times[times.size() / 2], times.back(), first[first.size() / 2]);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GrammarMasks,
                         ::testing::Values(Source{"llama2", "tokenizers/llama2/tokenizer.json"},
                                           Source{"mini_llama", "tokenizers/mini-llama/tokenizer.json"},
                                           Source{"added_tokens", "tokenizers/added-tokens/tokenizer.json", 0},
                                           Source{"torchtitan_bpe", "tokenizers/torchtitan-bpe/tokenizer.json", 0},
                                           Source{"t5_unigram", "tokenizers/t5-small/tokenizer.json", 1},
                                           Source{"sentencepiece_unigram",
                                                  "tokenizers/sentencepiece-unigram/tokenizer.model", 1},
                                           Source{"qwen2", "tokenizers/qwen2"},
                                           Source{"llama3_tiktoken", "tokenizers/llama3/tokenizer_llama3.tiktoken"},
                                           Source{"rwkv", "tokenizers/rwkv-world/rwkv_vocab_v20230424.txt"},
                                           Source{"gguf_spm", "gguf-vocab/ggml-vocab-llama-spm.gguf"},
                                           Source{"gguf_falcon", "gguf-vocab/ggml-vocab-falcon.gguf"},
                                           Source{"gguf_word_piece", "gguf-vocab/ggml-vocab-bert-bge.gguf", 1},
                                           Source{"gguf_phi_3", "gguf-vocab/ggml-vocab-phi-3.gguf"},
                                           Source{"stories260k", "checkpoints/stories260K/stories260K-f32.gguf"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace firstlight::text::grammar
