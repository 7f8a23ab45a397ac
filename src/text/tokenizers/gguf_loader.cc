// SPDX-License-Identifier: Apache-2.0
// GGUF vocabularies; see text/gguf_vocabulary.h. One function per kind sets up the same pipeline that tokenizer.json
// uses.
#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/tokenizer_parts.h"
#include "text/tokenizers/word_patterns.h"

namespace firstlight::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";

PieceType type_at(const GgufVocabulary& source, size_t id) {
  const int32_t type = id < source.token_types.size() ? source.token_types[id] : 1;
  return type >= 1 && type <= 6 ? static_cast<PieceType>(type) : PieceType::kNormal;
}

float score_at(const GgufVocabulary& source, size_t id) { return id < source.scores.size() ? source.scores[id] : 0.0f; }

// Phi-3's control tokens take the white space after them along, but for a few.
bool strips_right(const GgufVocabulary& source, std::string_view token) {
  std::string name = source.model_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool phi3 = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
  return phi3 && token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
}

Status check_tables(const GgufVocabulary& source) {
  if (source.tokens.empty()) return invalid_data("no tokens");
  const auto check = [&source](std::string_view what, size_t size) {
    if (size == 0 || size >= source.tokens.size()) return ok_status();
    return invalid_data(std::string(what) + ": " + std::to_string(size) + " entries for " +
                        std::to_string(source.tokens.size()) + " tokens");
  };
  FL_TRY(check("scores", source.scores.size()));
  return check("token_type", source.token_types.size());
}

Status read_tokens(const GgufVocabulary& source, TokenizerDraft& draft) {
  auto vocabulary = std::make_shared<Vocabulary>();
  size_t num_bytes = 0;
  for (const std::string& token : source.tokens) num_bytes += token.size();
  vocabulary->reserve(source.tokens.size(), num_bytes);
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string& token = source.tokens[i];
    FL_TRY(vocabulary->add(token, id));
    const PieceType type = type_at(source, i);
    const bool control = type == PieceType::kControl || type == PieceType::kUnknown;
    if (token.empty() || (!control && type != PieceType::kUserDefined)) continue;
    AddedToken added;
    added.content = token;
    added.id = id;
    added.special = type == PieceType::kControl;
    added.control = control;
    added.rstrip = strips_right(source, token);
    added.ascii_strip = true;
    draft.added.push_back(std::move(added));
    draft.raw_text_ids.push_back(id);
  }
  draft.parts.vocabulary = std::move(vocabulary);
  return ok_status();
}

// A special id: the file's, else the default of its kind; kNoToken when it is out of range.
int32_t special_id(const GgufVocabulary& source, const std::optional<int64_t>& given, int64_t fallback) {
  const auto size = static_cast<int64_t>(source.tokens.size());
  if (given && *given >= 0 && *given < size) return static_cast<int32_t>(*given);
  return fallback >= 0 && fallback < size ? static_cast<int32_t>(fallback) : kNoToken;
}

struct Defaults {
  int64_t bos = kNoToken;
  int64_t eos = kNoToken;
  int64_t unk = kNoToken;
  bool add_bos = false;
  bool add_eos = false;
};

Status set_specials(const GgufVocabulary& source, const Defaults& defaults, TokenizerParts& parts) {
  parts.bos_id = special_id(source, source.bos_id, defaults.bos);
  parts.eos_id = special_id(source, source.eos_id, defaults.eos);
  parts.unk_id = special_id(source, source.unk_id, defaults.unk);
  parts.pad_id = special_id(source, source.pad_id, kNoToken);
  if (source.add_bos.value_or(defaults.add_bos)) {
    if (parts.bos_id == kNoToken) return invalid_data("add_bos_token is set, but there is no BOS token");
    parts.prefix_ids.push_back(parts.bos_id);
  }
  if (source.add_eos.value_or(defaults.add_eos)) {
    if (parts.eos_id == kNoToken) return invalid_data("add_eos_token is set, but there is no EOS token");
    parts.suffix_ids.push_back(parts.eos_id);
  }
  return ok_status();
}

Result<Decoder> piece_decoder(bool strip_space) {
  dec::Replace unescape;
  unescape.from = kSpace;
  unescape.content = " ";
  std::vector<DecoderStep> steps = {std::move(unescape), dec::ByteFallback{}, dec::Fuse{}};
  if (strip_space) steps.emplace_back(dec::Strip{" ", 1, 0});
  return Decoder::build(std::move(steps));
}

std::vector<NormalizerStep> space_steps(bool add_prefix) {
  std::vector<NormalizerStep> steps;
  if (add_prefix) steps.emplace_back(norm::Prepend{" "});
  steps.emplace_back(norm::ReplaceText{" ", std::string(kSpace)});
  return steps;
}

Status load_llama(const GgufVocabulary& source, TokenizerDraft& draft) {
  TokenizerParts& parts = draft.parts;
  FL_TRY(set_specials(source, {.bos = 1, .eos = 2, .unk = 0, .add_bos = true}, parts));
  ScoredPieces pieces;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    pieces.scores.push_back(score_at(source, id));
    pieces.types.push_back(type_at(source, id));
  }
  pieces.unk_id = parts.unk_id;
  pieces.byte_fallback = true;
  pieces.strict_types = false;
  parts.model = ScoreModel(parts.vocabulary, std::move(pieces));
  parts.cache_words = false;
  const bool add_prefix = source.add_space_prefix.value_or(true);
  parts.normalizer = Normalizer(space_steps(add_prefix));
  parts.decoder = FL_TRY(piece_decoder(add_prefix));
  return ok_status();
}

Status read_merges(const GgufVocabulary& source, const Vocabulary& vocabulary, MergeTable& merges) {
  merges.reserve(source.merges.size());
  for (size_t rank = 0; rank < source.merges.size(); ++rank) {
    const std::string_view merge = source.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos) {
      return invalid_data("merge " + std::to_string(rank) + " is not a pair of tokens");
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    const int32_t left_id = vocabulary.find(left);
    const int32_t right_id = vocabulary.find(right);
    const int32_t merged = vocabulary.find(std::string(left).append(right));
    if (left_id == kNoToken || right_id == kNoToken || merged == kNoToken) continue;  // can never give a token
    merges.add(left_id, right_id, static_cast<uint32_t>(rank), merged, /*keep_first=*/true);
  }
  return ok_status();
}

Status load_bpe(const GgufVocabulary& source, std::string_view pre, TokenizerDraft& draft) {
  TokenizerParts& parts = draft.parts;
  const GgufWordPattern words = FL_TRY(gguf_word_pattern(pre));
  if (source.merges.empty()) return unsupported("a byte-pair vocabulary without merges");
  const bool add_sep = pre == "jina-v1-en" || pre == "jina-v2-code" || pre == "roberta-bpe";
  FL_TRY(set_specials(source, {.bos = 11, .eos = 11, .add_bos = words.add_bos}, parts));
  if (source.add_sep.value_or(add_sep)) {
    const int32_t sep = special_id(source, source.sep_id, kNoToken);
    if (sep != kNoToken) parts.suffix_ids.push_back(sep);
  }
  MergeTable merges;
  FL_TRY(read_merges(source, *parts.vocabulary, merges));
  BpeOptions options;
  options.ignore_merges = words.ignore_merges;
  options.unknown_blocks_merges = true;
  options.byte_fallback = !words.byte_level;
  parts.model = BpeModel(parts.vocabulary, std::move(merges), std::move(options));
  std::vector<PreTokenizerStep> steps = FL_TRY(split_steps(words.patterns, /*line_anchors=*/false));
  if (words.byte_level) {
    pretok::ByteLevel bytes;
    bytes.use_regex = false;
    steps.emplace_back(std::move(bytes));
    parts.decoder = FL_TRY(Decoder::build({dec::ByteLevel{}}));
    if (source.add_space_prefix.value_or(false)) parts.normalizer = Normalizer({norm::Prepend{" "}});
  } else {
    parts.normalizer = Normalizer(space_steps(source.add_space_prefix.value_or(false)));
    parts.decoder = FL_TRY(piece_decoder(source.add_space_prefix.value_or(false)));
  }
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  return ok_status();
}

Status load_bert(const GgufVocabulary& source, TokenizerDraft& draft) {
  TokenizerParts& parts = draft.parts;
  FL_TRY(set_specials(source, {.bos = source.cls_id.value_or(101), .unk = 100, .add_bos = true}, parts));
  const int32_t sep = special_id(source, source.sep_id, 102);
  if (source.add_sep.value_or(true) && sep != kNoToken) parts.suffix_ids.push_back(sep);
  WordPieceOptions options;
  options.word_prefix = kSpace;
  options.continuing_prefix = "";
  options.max_chars = std::numeric_limits<size_t>::max();
  options.unk_id = parts.unk_id;
  parts.model = WordPieceModel(parts.vocabulary, std::move(options));
  parts.normalizer = Normalizer({norm::Bert{}});
  parts.pre_tokenizer = PreTokenizer({pretok::CharSplit{pretok::CharClass::kWhiteSpace, SplitBehavior::kRemoved},
                                      pretok::CharSplit{pretok::CharClass::kPunctuation, SplitBehavior::kIsolated}});
  parts.decoder = FL_TRY(piece_decoder(true));
  return ok_status();
}

Status load_t5(const GgufVocabulary& source, TokenizerDraft& draft) {
  constexpr float kUnknownPenalty = 10.0f;
  TokenizerParts& parts = draft.parts;
  FL_TRY(set_specials(source, {.eos = 1, .unk = 2, .add_eos = true}, parts));
  UnigramPieces pieces;
  float min_score = std::numeric_limits<float>::max();
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const PieceType type = type_at(source, id);
    if (type == PieceType::kNormal) min_score = std::min(min_score, score_at(source, id));
    pieces.scores.push_back(type == PieceType::kUserDefined ? 0.0 : static_cast<double>(score_at(source, id)));
    pieces.excluded.push_back(type != PieceType::kNormal && type != PieceType::kUserDefined &&
                              type != PieceType::kUnused);
  }
  pieces.unk_id = parts.unk_id;
  pieces.unk_score = static_cast<double>(min_score - kUnknownPenalty);
  parts.model = UnigramModel(parts.vocabulary, std::move(pieces));
  parts.cache_words = false;
  norm::SentencePiece normalizer;
  normalizer.add_dummy_prefix = source.add_space_prefix.value_or(true);
  normalizer.remove_extra_whitespaces = source.remove_extra_whitespaces.value_or(false);
  if (!source.precompiled_charsmap.empty()) {
    Charsmap map = FL_TRY(Charsmap::parse(source.precompiled_charsmap));
    normalizer.map = std::make_shared<const Charsmap>(std::move(map));
  }
  const bool strip = normalizer.add_dummy_prefix;
  parts.normalizer = Normalizer({std::move(normalizer)});
  parts.decoder = FL_TRY(piece_decoder(strip));
  return ok_status();
}

// RWKV tokens are written with C escapes, bytes as \xAB.
std::string unescape_rwkv(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '\\' || i + 1 == token.size()) {
      out += token[i];
      continue;
    }
    const char escaped = token[++i];
    if (escaped == 'x' && i + 2 < token.size()) {
      const auto byte = parse_byte_token("<0x" + std::string(token.substr(i + 1, 2)) + ">");
      if (byte) out += static_cast<char>(*byte);
      i += 2;
    } else {
      out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
    }
  }
  return out;
}

Status load_rwkv(const GgufVocabulary& source, TokenizerDraft& draft) {
  auto vocabulary = std::make_shared<Vocabulary>();
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const bool plain = type_at(source, id) == PieceType::kNormal;
    FL_TRY(vocabulary->add(plain ? unescape_rwkv(source.tokens[id]) : source.tokens[id], static_cast<int64_t>(id)));
  }
  draft.parts.vocabulary = vocabulary;
  FL_TRY(set_specials(source, {}, draft.parts));
  draft.parts.model = LongestMatchModel(vocabulary);
  draft.parts.cache_words = false;
  return ok_status();
}

Status load_kind(const GgufVocabulary& source, TokenizerDraft& draft) {
  if (source.model == "llama") return load_llama(source, draft);
  if (source.model == "gpt2") return load_bpe(source, source.pre, draft);
  if (source.model == "gemma4") return load_bpe(source, "gemma4", draft);
  if (source.model == "bert") return load_bert(source, draft);
  if (source.model == "t5") return load_t5(source, draft);
  if (source.model == "rwkv") return load_rwkv(source, draft);
  return unsupported("tokenizer model '" + source.model + "'");
}

}  // namespace

Result<Tokenizer> load_gguf_vocabulary(const GgufVocabulary& vocabulary) {
  TokenizerDraft draft;
  FL_TRY(check_tables(vocabulary).with_context("GGUF vocabulary"));
  FL_TRY(read_tokens(vocabulary, draft).with_context("GGUF vocabulary"));
  FL_TRY(load_kind(vocabulary, draft).with_context("GGUF vocabulary"));
  return finish_tokenizer(std::move(draft));
}

}  // namespace firstlight::text
