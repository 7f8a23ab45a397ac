// SPDX-License-Identifier: Apache-2.0
// SentencePiece model files (protobuf): pieces with scores and types, the normalizer's character map and flags, the
// trainer's algorithm and special ids. Field numbers are those of the published sentencepiece_model.proto. Unigram and
// BPE; a control piece is found in text only as an added token (EncodeOptions::parse_special), which SentencePiece
// itself never does.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "text/tokenizers/protobuf_reader.h"
#include "text/tokenizers/tokenizer_parts.h"

namespace firstlight::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";

struct SentencePieceFile {
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<PieceType> types;
  std::string charsmap;
  norm::SentencePiece normalizer;
  uint64_t model_type = 1;
  bool byte_fallback = false;
  int64_t bos_id = 1;
  int64_t eos_id = 2;
  int64_t pad_id = -1;
};

Status read_piece(std::string_view bytes, SentencePieceFile& file) {
  std::string piece;
  float score = 0;
  uint64_t type = 1;
  for (ProtobufReader reader(bytes); !reader.at_end();) {
    const ProtobufReader::Field field = FL_TRY(reader.next());
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) type = field.value;
  }
  if (type < 1 || type > 6) return invalid_data("piece type " + std::to_string(type) + ", wanted 1 to 6");
  file.pieces.push_back(std::move(piece));
  file.scores.push_back(score);
  file.types.push_back(static_cast<PieceType>(type));
  return ok_status();
}

// int32 fields are sign-extended to 64 bits on the wire.
int64_t signed_id(uint64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

Status read_trainer(std::string_view bytes, SentencePieceFile& file) {
  for (ProtobufReader reader(bytes); !reader.at_end();) {
    const ProtobufReader::Field field = FL_TRY(reader.next());
    switch (field.number) {
      case 3:
        file.model_type = field.value;
        break;
      case 24:
        file.normalizer.whitespace_as_suffix = field.value != 0;
        break;
      case 35:
        file.byte_fallback = field.value != 0;
        break;
      case 41:
        file.bos_id = signed_id(field.value);
        break;
      case 42:
        file.eos_id = signed_id(field.value);
        break;
      case 43:
        file.pad_id = signed_id(field.value);
        break;
      default:
        break;
    }
  }
  return ok_status();
}

Status read_normalizer_spec(std::string_view bytes, SentencePieceFile& file) {
  for (ProtobufReader reader(bytes); !reader.at_end();) {
    const ProtobufReader::Field field = FL_TRY(reader.next());
    switch (field.number) {
      case 2:
        file.charsmap = field.bytes;
        break;
      case 3:
        file.normalizer.add_dummy_prefix = field.value != 0;
        break;
      case 4:
        file.normalizer.remove_extra_whitespaces = field.value != 0;
        break;
      case 5:
        file.normalizer.escape_whitespaces = field.value != 0;
        break;
      default:
        break;
    }
  }
  return ok_status();
}

Result<SentencePieceFile> read_file(std::string_view bytes) {
  SentencePieceFile file;
  for (ProtobufReader reader(bytes); !reader.at_end();) {
    const ProtobufReader::Field field = FL_TRY(reader.next());
    if (field.number == 1) {
      FL_TRY(read_piece(field.bytes, file).with_context("piece " + std::to_string(file.pieces.size())));
    } else if (field.number == 2) {
      FL_TRY(read_trainer(field.bytes, file).with_context("trainer settings"));
    } else if (field.number == 3) {
      FL_TRY(read_normalizer_spec(field.bytes, file).with_context("normalizer settings"));
    }
  }
  if (file.pieces.empty()) return invalid_data("no pieces");
  return file;
}

UnigramPieces unigram_pieces(const SentencePieceFile& file, int32_t unk_id) {
  constexpr float kUnknownPenalty = 10.0f;
  UnigramPieces pieces;
  float min_score = std::numeric_limits<float>::max();
  float max_score = std::numeric_limits<float>::lowest();
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const PieceType type = file.types[id];
    if (type == PieceType::kNormal) {
      min_score = std::min(min_score, file.scores[id]);
      max_score = std::max(max_score, file.scores[id]);
    }
    pieces.scores.push_back(static_cast<double>(file.scores[id]));
    pieces.excluded.push_back(type != PieceType::kNormal && type != PieceType::kUserDefined);
    pieces.user_defined.push_back(type == PieceType::kUserDefined);
  }
  pieces.unk_id = unk_id;
  pieces.unk_score = static_cast<double>(min_score - kUnknownPenalty);
  pieces.user_defined_factor = static_cast<double>(max_score);
  pieces.byte_fallback = file.byte_fallback;
  pieces.round_to_float = true;
  return pieces;
}

Result<Decoder> make_decoder(const SentencePieceFile& file) {
  dec::Replace unescape;
  unescape.from = kSpace;
  unescape.content = " ";
  std::vector<DecoderStep> steps = {std::move(unescape), dec::ByteFallback{}, dec::Fuse{}};
  const norm::SentencePiece& rules = file.normalizer;
  constexpr size_t kAllSpaces = 1024;
  if ((rules.add_dummy_prefix && !rules.whitespace_as_suffix) || rules.remove_extra_whitespaces) {
    steps.emplace_back(dec::Strip{" ", rules.remove_extra_whitespaces ? kAllSpaces : 1, 0});
  }
  return Decoder::build(std::move(steps));
}

Status make_normalizer(const SentencePieceFile& file, const Vocabulary& vocabulary, TokenizerParts& parts) {
  norm::SentencePiece normalizer = file.normalizer;
  if (!file.charsmap.empty()) {
    Charsmap map = FL_TRY(Charsmap::parse(file.charsmap));
    normalizer.map = std::make_shared<const Charsmap>(std::move(map));
  }
  std::vector<ByteTrie::Key> keys;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (file.types[id] == PieceType::kUserDefined) keys.push_back({vocabulary.text(token), token});
  }
  if (!keys.empty()) normalizer.user_defined = std::make_shared<const ByteTrie>(std::move(keys));
  parts.normalizer = Normalizer({std::move(normalizer)});
  return ok_status();
}

int32_t checked_id(int64_t id, const SentencePieceFile& file) {
  const bool valid = id >= 0 && id < static_cast<int64_t>(file.pieces.size()) &&
                     file.types[static_cast<size_t>(id)] == PieceType::kControl;
  return valid ? static_cast<int32_t>(id) : kNoToken;
}

}  // namespace

Result<Tokenizer> load_sentencepiece_model(std::string_view bytes) {
  const SentencePieceFile file = FL_TRY(read_file(bytes).with_context("SentencePiece model"));
  auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->reserve(file.pieces.size(), bytes.size());
  TokenizerDraft draft;
  TokenizerParts& parts = draft.parts;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (file.pieces[id].empty()) return invalid_data("SentencePiece model: piece " + std::to_string(id) + " is empty");
    FL_TRY(vocabulary->add(file.pieces[id], token).with_context("SentencePiece model"));
    if (file.types[id] == PieceType::kUnknown && parts.unk_id == kNoToken) parts.unk_id = token;
    if (file.types[id] == PieceType::kControl) {
      draft.added.push_back({.content = file.pieces[id], .id = token, .special = true});
    }
  }
  parts.bos_id = checked_id(file.bos_id, file);
  parts.eos_id = checked_id(file.eos_id, file);
  parts.pad_id = checked_id(file.pad_id, file);
  parts.vocabulary = vocabulary;
  parts.cache_words = false;
  if (file.model_type == 1) {
    parts.model = UnigramModel(vocabulary, unigram_pieces(file, parts.unk_id));
  } else if (file.model_type == 2) {
    parts.model = ScoreModel(vocabulary, {.scores = file.scores,
                                          .types = file.types,
                                          .unk_id = parts.unk_id,
                                          .byte_fallback = file.byte_fallback,
                                          .strict_types = true});
  } else {
    return unsupported("SentencePiece model of type " + std::to_string(file.model_type) +
                       " (1 unigram, 2 BPE are known)");
  }
  FL_TRY(make_normalizer(file, *vocabulary, parts).with_context("SentencePiece model"));
  parts.decoder = FL_TRY(make_decoder(file));
  return finish_tokenizer(std::move(draft));
}

}  // namespace firstlight::text
