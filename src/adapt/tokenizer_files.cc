// SPDX-License-Identifier: Apache-2.0
#include "adapt/tokenizer_files.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizers/tokenizer_parts.h"
#include "text/tokenizers/word_patterns.h"

namespace firstlight::adapt {
namespace {

using text::GgufVocabulary;

constexpr std::string_view kSpace = "\xE2\x96\x81";

// Token types of a GGUF vocabulary.
constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;

int32_t type_of(const GgufVocabulary& source, size_t id) {
  return id < source.token_types.size() ? source.token_types[id] : kNormal;
}

std::string json_string(std::string_view text) { return dump_json(Json(std::string(text))); }

bool is_utf8(std::string_view text) {
  const std::string quote = json_string(text);
  const auto back = parse_json(quote);
  return back.ok() && back->get<std::string>() == text;
}

Json split_step(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json replace_step(std::string_view from_key, std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{std::string(from_key), std::string(from)}}}, {"content", std::string(to)}};
}

Json byte_level_step() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
}

Json sequence(std::string_view list, Json steps) {
  return {{"type", "Sequence"}, {std::string(list), std::move(steps)}};
}

// How texts become words, and tokens texts again.
struct Pipeline {
  Json normalizer, pre_tokenizer, decoder;
};

Pipeline byte_level_pipeline(const GgufVocabulary& source, const text::GgufWordPattern& words) {
  Json steps = Json::array();
  for (const std::string& pattern : words.patterns) steps.push_back(split_step(pattern));
  steps.push_back(byte_level_step());
  Pipeline pipeline;
  if (source.add_space_prefix.value_or(false)) pipeline.normalizer = {{"type", "Prepend"}, {"prepend", " "}};
  pipeline.pre_tokenizer = sequence("pretokenizers", std::move(steps));
  pipeline.decoder = byte_level_step();
  return pipeline;
}

Pipeline piece_pipeline(bool add_prefix) {
  Json normalizers = Json::array(), decoders = Json::array();
  if (add_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", std::string(kSpace)}});
  normalizers.push_back(replace_step("String", " ", kSpace));
  decoders.push_back(replace_step("String", kSpace, " "));
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (add_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {.normalizer = sequence("normalizers", std::move(normalizers)),
          .pre_tokenizer = nullptr,
          .decoder = sequence("decoders", std::move(decoders))};
}

// Control, unknown and user-defined tokens: found in texts before anything else.
Json added_tokens(const text::Tokenizer& tokenizer) {
  std::vector<text::AddedToken> tokens = tokenizer.parts().added.tokens();
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  Json list = Json::array();
  for (const text::AddedToken& token : tokens) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.control}});
  }
  return list;
}

Json template_processor(const GgufVocabulary& source, const text::Tokenizer& tokenizer) {
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto add = [&](std::optional<int32_t> id, int segment) {
    const std::string& token = source.tokens[static_cast<size_t>(*id)];
    const Json item = {{"SpecialToken", {{"id", token}, {"type_id", segment}}}};
    if (segment == 0) single.push_back(item);
    pair.push_back(item);
    special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  const auto add_text = [&](const char* name, int segment) {
    const Json item = {{"Sequence", {{"id", name}, {"type_id", segment}}}};
    if (segment == 0) single.push_back(item);
    pair.push_back(item);
  };
  for (int segment = 0; segment < 2; ++segment) {
    if (tokenizer.adds_bos()) add(tokenizer.bos_id(), segment);
    add_text(segment == 0 ? "A" : "B", segment);
    if (tokenizer.adds_eos()) add(tokenizer.eos_id(), segment);
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

using MergeList = std::vector<std::pair<std::string_view, std::string_view>>;

// Without those that can never give a token, which other readers refuse.
Result<MergeList> stored_merges(const GgufVocabulary& source) {
  const std::unordered_set<std::string_view> known(source.tokens.begin(), source.tokens.end());
  MergeList merges;
  for (const std::string_view merge : source.merges) {
    const size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos) {
      return invalid_data("merge '" + std::string(merge) + "' is not a pair of tokens");
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const bool usable =
        known.contains(left) && known.contains(right) && known.contains(std::string(left).append(right));
    if (usable) merges.emplace_back(left, right);
  }
  return merges;
}

// SentencePiece joins the pair whose piece has the best score: the merges are all pairs of pieces that give a piece, by
// its score.
MergeList merges_of_scores(const GgufVocabulary& source) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < source.tokens.size(); ++id) ids.emplace(source.tokens[id], static_cast<int32_t>(id));
  struct Merge {
    float score;
    int32_t left, right;
    size_t piece, cut;
  };
  std::vector<Merge> merges;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const std::string_view piece = source.tokens[id];
    const int32_t type = type_of(source, id);
    if (type != kNormal && type != kUserDefined) continue;
    const float score = id < source.scores.size() ? source.scores[id] : 0.0F;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = ids.find(piece.substr(0, cut)), right = ids.find(piece.substr(cut));
      if (left != ids.end() && right != ids.end()) merges.push_back({score, left->second, right->second, id, cut});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::tie(a.piece, a.left, a.right) < std::tie(b.piece, b.left, b.right);
  });
  MergeList list;
  for (const Merge& merge : merges) {
    const std::string_view piece = source.tokens[merge.piece];
    list.emplace_back(piece.substr(0, merge.cut), piece.substr(merge.cut));
  }
  return list;
}

struct ModelSettings {
  std::string unk_token;  // empty: none
  bool byte_fallback = false;
  bool ignore_merges = false;
};

// Written out by hand: an ordered Json object looks its keys up one by one.
Result<std::string> model_text(const GgufVocabulary& source, const MergeList& merges, const ModelSettings& settings) {
  std::string out = R"({"type":"BPE","dropout":null,"unk_token":)";
  out += settings.unk_token.empty() ? "null" : json_string(settings.unk_token);
  out += R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":)";
  out += settings.byte_fallback ? "true" : "false";
  out += R"(,"byte_fallback":)";
  out += settings.byte_fallback ? "true" : "false";
  out += R"(,"ignore_merges":)";
  out += settings.ignore_merges ? "true" : "false";
  out += ",\"vocab\":{";
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    if (!is_utf8(source.tokens[id])) return unsupported("token " + std::to_string(id) + " is not UTF-8");
    out += (id == 0 ? "" : ",") + json_string(source.tokens[id]) + ":" + std::to_string(id);
  }
  out += "},\"merges\":[";
  for (size_t i = 0; i < merges.size(); ++i) {
    out += (i == 0 ? "[" : ",[") + json_string(merges[i].first) + "," + json_string(merges[i].second) + "]";
  }
  return out + "]}";
}

Result<std::string> document_text(const GgufVocabulary& source, const text::Tokenizer& tokenizer,
                                  const Pipeline& pipeline, const std::string& model) {
  Json head = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added_tokens(tokenizer)},
               {"normalizer", pipeline.normalizer},
               {"pre_tokenizer", pipeline.pre_tokenizer},
               {"post_processor", template_processor(source, tokenizer)},
               {"decoder", pipeline.decoder}};
  std::string out = dump_json(head);
  out.pop_back();
  return out + ",\"model\":" + model + "}\n";
}

// Texts of many kinds, to see whether two tokenizers are the same.
constexpr std::string_view kProbes[] = {
    "Hello, world!",
    "  two spaces, \ttabs\t\t and\n\nlines \r\n end  ",
    "The quick brown fox doesn't jump; it's 12345.678e-9 (or 2024/01/31)?!",
    "na\xC3\xAFve caf\xC3\xA9 \xE2\x80\x94 \xC3\x9C"
    "ber \xC5\x82\xC3\xB3\xC5\xBC",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3"
    "\x81\xA7\xE3\x81\x99",
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82, \xD8\xA7\xD9\x84\xD8\xB3\xD9\x84\xD8\xA7\xD9\x85 "
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 \xEC\x95\x88\xEB\x85\x95",
    "\xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB \xF0\x9F\x87\xA9\xF0\x9F\x87\xAA \xEF\xB8\x8F",
    "int main(void) { return a[i]->b != 0x1F && ~c; } // <tag attr=\"v\"> \xC2\xA0 \xE3\x80\x80 |",
    "aaaaaaaaaaaaaaaaaaaaaaa          ======== ........ ____ 000000000000",
    "CamelCaseWords HTTPServer's I'LL we'Ve x\xE2\x80\x99s ",
    "\xE2\x96\x81 \x01 \x7F \xEF\xBF\xBD \xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA\xE0\xB8\x94\xE0\xB8\xB5",
    "One day, a little girl named Lily found a needle in her room. She knew it was difficult to play with it because "
    "it "
    "was sharp.",
};

class Comparison {
 public:
  Comparison(const GgufVocabulary& source, const text::Tokenizer& wanted, const text::Tokenizer& found)
      : source_(source), wanted_(wanted), found_(found) {}

  Status run() const {
    for (const std::string_view probe : kProbes) FL_TRY(compare(std::string(probe)));
    FL_TRY(compare_pieces());
    return compare_added();
  }

 private:
  Status compare(const std::string& content) const {
    const auto ids = FL_TRY(wanted_.encode(content));
    const bool same = ids == FL_TRY(found_.encode(content));
    if (same && (has_user_defined(ids) || wanted_.decode(ids) == found_.decode(ids))) return ok_status();
    return unsupported("a tokenizer.json would " + std::string(same ? "decode " : "encode ") + json_string(content) +
                       " in another way than the GGUF vocabulary");
  }

  // Such tokens are decoded as they are written here, and through the decoder by every reader of tokenizer.json.
  bool has_user_defined(const std::vector<int32_t>& ids) const {
    return std::any_of(ids.begin(), ids.end(),
                       [&](int32_t id) { return type_of(source_, static_cast<size_t>(id)) == kUserDefined; });
  }

  // Every token's own text, or, of a large vocabulary, that of every n-th.
  Status compare_pieces() const {
    constexpr size_t kMaxPieces = 20000, kTextBytes = 400;
    const size_t stride = source_.tokens.size() / kMaxPieces + 1;
    std::string joined;
    for (size_t id = 0; id < source_.tokens.size(); id += stride) {
      if (type_of(source_, id) == kNormal) joined += wanted_.token_bytes(static_cast<int32_t>(id)) + " ";
      if (joined.size() < kTextBytes) continue;
      FL_TRY(compare(joined));
      joined.clear();
    }
    return compare(joined);
  }

  // Control and user-defined tokens between words.
  Status compare_added() const {
    constexpr int kMaxTokens = 200;
    int seen = 0;
    for (size_t id = 0; id < source_.tokens.size() && seen < kMaxTokens; ++id) {
      const int32_t type = type_of(source_, id);
      if (source_.tokens[id].empty() || (type != kControl && type != kUserDefined)) continue;
      FL_TRY(compare("Before " + source_.tokens[id] + " after" + source_.tokens[id] + "\nend"));
      ++seen;
    }
    return ok_status();
  }

  const GgufVocabulary& source_;
  const text::Tokenizer& wanted_;
  const text::Tokenizer& found_;
};

}  // namespace

Result<std::string> tokenizer_json_of(const GgufVocabulary& vocabulary) {
  const text::Tokenizer tokenizer = FL_TRY(text::load_gguf_vocabulary(vocabulary));
  Pipeline pipeline;
  MergeList merges;
  ModelSettings settings;
  if (vocabulary.model == "gpt2") {
    const auto words = FL_TRY(text::gguf_word_pattern(vocabulary.pre));
    if (!words.byte_level) return unsupported("pre-tokenizer '" + vocabulary.pre + "' as tokenizer.json");
    pipeline = byte_level_pipeline(vocabulary, words);
    merges = FL_TRY(stored_merges(vocabulary));
    settings.ignore_merges = words.ignore_merges;
  } else if (vocabulary.model == "llama") {
    pipeline = piece_pipeline(vocabulary.add_space_prefix.value_or(true));
    merges = merges_of_scores(vocabulary);
    settings.byte_fallback = true;
    if (const auto unk = tokenizer.unk_id()) settings.unk_token = vocabulary.tokens[static_cast<size_t>(*unk)];
  } else {
    return unsupported("a '" + vocabulary.model + "' vocabulary as tokenizer.json");
  }
  const std::string model = FL_TRY(model_text(vocabulary, merges, settings));
  std::string json = FL_TRY(document_text(vocabulary, tokenizer, pipeline, model));
  const auto found = FL_TRY(text::load_tokenizer_json(json));
  FL_TRY(Comparison(vocabulary, tokenizer, found).run());
  return json;
}

Result<std::string> tokenizer_config_of(const formats::GgufFile& file, const GgufVocabulary& vocabulary,
                                        std::optional<int64_t> max_positions) {
  const text::Tokenizer tokenizer = FL_TRY(text::load_gguf_vocabulary(vocabulary));
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_bos_token", tokenizer.adds_bos()},
                 {"add_eos_token", tokenizer.adds_eos()},
                 {"clean_up_tokenization_spaces", false}};
  const auto add = [&](const char* name, std::optional<int32_t> id) {
    if (id) config[name] = vocabulary.tokens[static_cast<size_t>(*id)];
  };
  add("bos_token", tokenizer.bos_id());
  add("eos_token", tokenizer.eos_id());
  add("unk_token", tokenizer.unk_id());
  add("pad_token", tokenizer.pad_id());
  if (max_positions) config["model_max_length"] = *max_positions;
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  Json named = Json::array();
  for (const formats::GgufEntry& entry : file.entries()) {
    if (!entry.key.starts_with(kTemplate) || entry.key == "tokenizer.chat_templates") continue;
    const std::string source(FL_TRY(file.get_string(entry.key)));
    const std::string name = entry.key == kTemplate ? "default" : std::string(entry.key.substr(kTemplate.size() + 1));
    named.push_back({{"name", name}, {"template", source}});
  }
  if (named.size() == 1 && named[0]["name"] == "default") {
    config["chat_template"] = named[0]["template"];
  } else if (!named.empty()) {
    config["chat_template"] = std::move(named);
  }
  return dump_json(config, 2) + "\n";
}

}  // namespace firstlight::adapt
