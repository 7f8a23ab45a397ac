// SPDX-License-Identifier: Apache-2.0
// vocab.json + merges.txt: byte-level BPE whose word pattern is nowhere in the files. It follows from the tokenizer
// class in tokenizer_config.json; an unknown class is refused, since a wrong pattern gives wrong ids without any other
// sign.
#include <utility>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/tokenizer_config.h"
#include "text/tokenizers/tokenizer_parts.h"
#include "text/tokenizers/word_patterns.h"

namespace firstlight::text {
namespace {

Result<std::shared_ptr<Vocabulary>> read_vocab(std::string_view json) {
  simdjson::dom::parser parser;
  const JsonElement document = FL_TRY(parse_document(parser, json));
  JsonObject object;
  if (document.get_object().get(object) != simdjson::SUCCESS) return invalid_data("not an object");
  auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->reserve(object.size(), json.size());
  for (const auto& entry : object) {
    int64_t id = 0;
    if (entry.value.get_int64().get(id) != simdjson::SUCCESS) {
      return invalid_data("the id of token '" + std::string(entry.key) + "' is not a number");
    }
    FL_TRY(vocabulary->add(entry.key, id));
  }
  return vocabulary;
}

Result<MergeTable> read_merges(std::string_view content, const Vocabulary& vocabulary) {
  MergeTable merges;
  uint32_t rank = 0;
  size_t line_number = 0;
  for (size_t pos = 0; pos < content.size();) {
    const size_t end = std::min(content.find('\n', pos), content.size());
    std::string_view line = content.substr(pos, end - pos);
    if (line.ends_with('\r')) line.remove_suffix(1);
    pos = end + 1;
    ++line_number;
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    const std::string_view left = line.substr(0, space);
    const std::string_view right = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    const int32_t left_id = vocabulary.find(left);
    const int32_t right_id = vocabulary.find(right);
    const int32_t merged = vocabulary.find(std::string(left).append(right));
    if (left_id == kNoToken || right_id == kNoToken || merged == kNoToken) {
      return invalid_data("line " + std::to_string(line_number) + " is not a pair of tokens whose union is a token");
    }
    merges.add(left_id, right_id, rank++, merged, /*keep_first=*/false);
  }
  return merges;
}

struct ClassRules {
  std::string_view name;
  std::string_view pattern;  // a pre-tokenizer name of GGUF files
  bool nfc = false;
};

Result<ClassRules> rules_of(std::string_view tokenizer_class) {
  constexpr std::string_view kFast = "Fast";
  if (tokenizer_class.ends_with(kFast)) tokenizer_class.remove_suffix(kFast.size());
  constexpr ClassRules kRules[] = {{"Qwen2Tokenizer", "qwen2", true}, {"GPT2Tokenizer", "gpt-2"},
                                   {"CodeGenTokenizer", "gpt-2"},     {"RobertaTokenizer", "gpt-2"},
                                   {"BartTokenizer", "gpt-2"},        {"WhisperTokenizer", "gpt-2"}};
  for (const ClassRules& rules : kRules) {
    if (rules.name == tokenizer_class) return rules;
  }
  return unsupported("vocab.json + merges.txt with tokenizer class '" + std::string(tokenizer_class) +
                     "': its word pattern is not known");
}

}  // namespace

Result<Tokenizer> load_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                        std::string_view config_json) {
  simdjson::dom::parser parser;
  if (config_json.empty()) return unsupported("vocab.json + merges.txt without a tokenizer_config.json");
  const JsonElement config = FL_TRY(parse_document(parser, config_json).with_context("tokenizer_config.json"));
  const std::string name = FL_TRY(string_field(config, "tokenizer_class", "").with_context("tokenizer_config.json"));
  const ClassRules rules = FL_TRY(rules_of(name));
  const bool prefix_space = FL_TRY(bool_field(config, "add_prefix_space", false));
  TokenizerDraft draft;
  TokenizerParts& parts = draft.parts;
  auto vocabulary = FL_TRY(read_vocab(vocab_json).with_context("vocab.json"));
  MergeTable table = FL_TRY(read_merges(merges, *vocabulary).with_context("merges.txt"));
  parts.vocabulary = vocabulary;
  parts.model = BpeModel(vocabulary, std::move(table), {});
  if (rules.nfc) parts.normalizer = Normalizer({norm::UnicodeForm{NormalForm::kNfc}});
  const GgufWordPattern words = FL_TRY(gguf_word_pattern(rules.pattern));
  std::vector<PreTokenizerStep> steps = FL_TRY(split_steps(words.patterns, /*line_anchors=*/true));
  if (prefix_space) {
    // The space comes before the words are cut.
    pretok::ByteLevel spaced;
    spaced.add_prefix_space = true;
    spaced.pattern = FL_TRY(Regex::compile(words.patterns.front()));
    steps = {std::move(spaced)};
  } else {
    pretok::ByteLevel bytes;
    bytes.use_regex = false;
    steps.emplace_back(std::move(bytes));
  }
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  parts.decoder = FL_TRY(Decoder::build({dec::ByteLevel{}}));
  FL_TRY(apply_tokenizer_config(config_json, ConfigRole::kOnlySource, draft).with_context("tokenizer_config.json"));
  return finish_tokenizer(std::move(draft));
}

}  // namespace firstlight::text
