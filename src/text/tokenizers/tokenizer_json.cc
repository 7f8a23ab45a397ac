// SPDX-License-Identifier: Apache-2.0
// tokenizer.json (and tokenizer_config.json). The file's "truncation" and "padding" are not applied: they are defaults
// for batch encoding, and a prompt is never cut behind the caller's back. BPE dropout, a training device, is refused.
#include <utility>

#include "text/tokenizers/json_components.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/tokenizer_config.h"
#include "text/tokenizers/tokenizer_parts.h"

namespace firstlight::text {
namespace {

Result<std::shared_ptr<Vocabulary>> read_vocab(const JsonElement& model) {
  const auto vocab = field(model, "vocab");
  JsonObject object;
  if (!vocab || vocab->get_object().get(object) != simdjson::SUCCESS)
    return invalid_data("model: 'vocab' is not an object");
  auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->reserve(object.size(), object.size() * 8);
  for (const auto& entry : object) {
    int64_t id = 0;
    if (entry.value.get_int64().get(id) != simdjson::SUCCESS) {
      return invalid_data("model: the id of token '" + std::string(entry.key) + "' is not a number");
    }
    FL_TRY(vocabulary->add(entry.key, id));
  }
  return vocabulary;
}

Status bad_merge(size_t rank, std::string_view why) {
  return invalid_data("model: merge " + std::to_string(rank) + " " + std::string(why));
}

struct MergeIds {
  int32_t left = kNoToken;
  int32_t right = kNoToken;
  int32_t merged = kNoToken;
  bool complete() const { return left != kNoToken && right != kNoToken && merged != kNoToken; }
};

MergeIds find_merge(const Vocabulary& vocabulary, std::string_view left, std::string_view right, size_t prefix_bytes) {
  std::string merged(left);
  merged.append(right, std::min(prefix_bytes, right.size()));
  return {vocabulary.find(left), vocabulary.find(right), vocabulary.find(merged)};
}

// "left right" or ["left", "right"]. Tokens with spaces in them are told apart by what is a token.
Result<MergeIds> read_merge(const JsonElement& merge, size_t rank, const Vocabulary& vocabulary, size_t prefix_bytes) {
  std::string_view text;
  MergeIds ids;
  if (merge.get_string().get(text) == simdjson::SUCCESS) {
    for (size_t at = text.find(' '); at != std::string_view::npos && !ids.complete(); at = text.find(' ', at + 1)) {
      ids = find_merge(vocabulary, text.substr(0, at), text.substr(at + 1), prefix_bytes);
    }
  } else {
    JsonArray pair;
    std::string_view left, right;
    if (merge.get_array().get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get_string().get(left) != simdjson::SUCCESS ||
        pair.at(1).get_string().get(right) != simdjson::SUCCESS) {
      return bad_merge(rank, "is not a pair of tokens");
    }
    ids = find_merge(vocabulary, left, right, prefix_bytes);
  }
  if (!ids.complete()) return bad_merge(rank, "is not a pair of tokens whose union is a token");
  return ids;
}

Result<MergeTable> read_merges(const JsonElement& model, const Vocabulary& vocabulary, size_t prefix_bytes) {
  MergeTable merges;
  const auto list = field(model, "merges");
  JsonArray array;
  if (!list || list->get_array().get(array) != simdjson::SUCCESS) {
    JsonObject none;
    if (list && list->get_object().get(none) == simdjson::SUCCESS && none.size() == 0) return merges;
    return invalid_data("model: 'merges' is not a list");
  }
  merges.reserve(array.size());
  size_t rank = 0;
  for (const JsonElement& merge : array) {
    std::string_view text;
    if (merge.get_string().get(text) == simdjson::SUCCESS && text.starts_with("#version")) continue;
    const MergeIds ids = FL_TRY(read_merge(merge, rank, vocabulary, prefix_bytes));
    merges.add(ids.left, ids.right, static_cast<uint32_t>(rank), ids.merged, /*keep_first=*/false);
    ++rank;
  }
  return merges;
}

Status read_bpe(const JsonElement& model, TokenizerParts& parts) {
  double dropout = 0;
  if (const auto value = field(model, "dropout");
      value && value->get_double().get(dropout) == simdjson::SUCCESS && dropout != 0) {
    return unsupported("model: BPE dropout " + std::to_string(dropout));
  }
  auto vocabulary = FL_TRY(read_vocab(model));
  BpeOptions options;
  options.continuing_subword_prefix = FL_TRY(string_field(model, "continuing_subword_prefix", ""));
  options.end_of_word_suffix = FL_TRY(string_field(model, "end_of_word_suffix", ""));
  options.fuse_unk = FL_TRY(bool_field(model, "fuse_unk", false));
  options.byte_fallback = FL_TRY(bool_field(model, "byte_fallback", false));
  options.ignore_merges = FL_TRY(bool_field(model, "ignore_merges", false));
  options.unk_id = vocabulary->find(FL_TRY(string_field(model, "unk_token", "")));
  parts.unk_id = options.unk_id;
  MergeTable merges = FL_TRY(read_merges(model, *vocabulary, options.continuing_subword_prefix.size()));
  parts.vocabulary = vocabulary;
  parts.model = BpeModel(vocabulary, std::move(merges), std::move(options));
  return ok_status();
}

Status read_unigram(const JsonElement& model, TokenizerParts& parts) {
  constexpr double kUnknownPenalty = 10.0;
  auto vocabulary = std::make_shared<Vocabulary>();
  UnigramPieces pieces;
  double min_score = 0;
  const auto entries = FL_TRY(array_field(model, "vocab"));
  if (entries.empty()) return invalid_data("model: the vocabulary is empty");
  vocabulary->reserve(entries.size(), entries.size() * 8);
  for (const JsonElement& entry : entries) {
    JsonArray pair;
    std::string_view token;
    double score = 0;
    if (entry.get_array().get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get_string().get(token) != simdjson::SUCCESS ||
        pair.at(1).get_double().get(score) != simdjson::SUCCESS) {
      return invalid_data("model: entry " + std::to_string(pieces.scores.size()) + " is not a pair of token and score");
    }
    FL_TRY(vocabulary->add(token, static_cast<int64_t>(pieces.scores.size())));
    min_score = pieces.scores.empty() ? score : std::min(min_score, score);
    pieces.scores.push_back(score);
  }
  const int64_t unk_id = FL_TRY(int_field(model, "unk_id", kNoToken));
  if (unk_id != kNoToken && !vocabulary->contains(unk_id)) {
    return invalid_data("model: unk_id " + std::to_string(unk_id) + " is no token");
  }
  pieces.unk_id = static_cast<int32_t>(unk_id);
  pieces.unk_score = min_score - kUnknownPenalty;
  pieces.byte_fallback = FL_TRY(bool_field(model, "byte_fallback", false));
  parts.unk_id = pieces.unk_id;
  parts.vocabulary = vocabulary;
  parts.model = UnigramModel(vocabulary, std::move(pieces));
  return ok_status();
}

Status read_word_piece(const JsonElement& model, TokenizerParts& parts) {
  auto vocabulary = FL_TRY(read_vocab(model));
  WordPieceOptions options;
  options.continuing_prefix = FL_TRY(string_field(model, "continuing_subword_prefix", "##"));
  options.unk_id = vocabulary->find(FL_TRY(string_field(model, "unk_token", "[UNK]")));
  const int64_t max_chars = FL_TRY(int_field(model, "max_input_chars_per_word", 100));
  if (max_chars < 0) return invalid_data("model: max_input_chars_per_word " + std::to_string(max_chars));
  options.max_chars = static_cast<size_t>(max_chars);
  parts.unk_id = options.unk_id;
  parts.vocabulary = vocabulary;
  parts.model = WordPieceModel(vocabulary, std::move(options));
  return ok_status();
}

Status read_word_level(const JsonElement& model, TokenizerParts& parts) {
  auto vocabulary = FL_TRY(read_vocab(model));
  parts.unk_id = vocabulary->find(FL_TRY(string_field(model, "unk_token", "<unk>")));
  parts.vocabulary = vocabulary;
  parts.model = WordLevelModel(vocabulary, parts.unk_id);
  return ok_status();
}

// Old files leave the type out; what tells the models apart then is the shape of the vocabulary and the merges.
std::string guess_model_type(const JsonElement& model) {
  if (field(model, "merges")) return "BPE";
  const auto vocab = field(model, "vocab");
  if (vocab && vocab->is_array()) return "Unigram";
  return field(model, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

Status read_model(const JsonElement& document, TokenizerParts& parts) {
  const auto model = field(document, "model");
  if (!model || !model->is_object()) return invalid_data("no model");
  std::string type = FL_TRY(string_field(*model, "type", ""));
  if (type.empty()) type = guess_model_type(*model);
  if (type == "BPE") return read_bpe(*model, parts);
  if (type == "Unigram") return read_unigram(*model, parts);
  if (type == "WordPiece") return read_word_piece(*model, parts);
  if (type == "WordLevel") return read_word_level(*model, parts);
  return unsupported("model of type '" + type + "'");
}

Status read_added_tokens(const JsonElement& document, TokenizerDraft& draft) {
  const std::vector<JsonElement> items = FL_TRY(array_field(document, "added_tokens"));
  for (const JsonElement& item : items) {
    const int64_t id = FL_TRY(int_field(item, "id", kNoToken));
    FL_TRY(append_added_token(item, id, draft).with_context("added_tokens"));
  }
  return ok_status();
}

Status set_template_ids(const std::vector<int64_t>& ids, std::vector<int32_t>& out) {
  for (int64_t id : ids) {
    if (id < 0 || id > Vocabulary::kMaxId) return invalid_data("post-processor: id " + std::to_string(id));
    out.push_back(static_cast<int32_t>(id));
  }
  return ok_status();
}

}  // namespace

Result<Tokenizer> load_tokenizer_json(std::string_view json, std::string_view config_json) {
  simdjson::dom::parser parser;
  const JsonElement document = FL_TRY(parse_document(parser, json).with_context("tokenizer.json"));
  TokenizerDraft draft;
  TokenizerParts& parts = draft.parts;
  FL_TRY(read_model(document, parts).with_context("tokenizer.json"));
  parts.normalizer = FL_TRY(read_normalizer(field(document, "normalizer")).with_context("tokenizer.json"));
  parts.pre_tokenizer = FL_TRY(read_pre_tokenizer(field(document, "pre_tokenizer")).with_context("tokenizer.json"));
  parts.decoder = FL_TRY(read_decoder(field(document, "decoder")).with_context("tokenizer.json"));
  FL_TRY(read_added_tokens(document, draft).with_context("tokenizer.json"));
  const PostProcessor post =
      FL_TRY(read_post_processor(field(document, "post_processor")).with_context("tokenizer.json"));
  FL_TRY(set_template_ids(post.prefix_ids, parts.prefix_ids));
  FL_TRY(set_template_ids(post.suffix_ids, parts.suffix_ids));
  FL_TRY(apply_tokenizer_config(config_json, ConfigRole::kBesideTokenizerJson, draft)
             .with_context("tokenizer_config.json"));
  return finish_tokenizer(std::move(draft));
}

}  // namespace firstlight::text
