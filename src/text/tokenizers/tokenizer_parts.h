// SPDX-License-Identifier: Apache-2.0
// Everything a Tokenizer is made of. Loaders fill this struct; finish_tokenizer() checks it, derives the tables that
// depend on all of it, and closes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"
#include "text/tokenizers/added_tokens.h"
#include "text/tokenizers/bpe_model.h"
#include "text/tokenizers/decoder.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/piece_models.h"
#include "text/tokenizers/pre_tokenizer.h"
#include "text/tokenizers/unigram_model.h"
#include "text/tokenizers/vocabulary.h"
#include "text/tokenizers/word_models.h"

namespace firstlight::text {

using Model =
    std::variant<BpeModel, RankModel, ScoreModel, LongestMatchModel, UnigramModel, WordPieceModel, WordLevelModel>;

struct TokenizerParts {
  std::shared_ptr<const Vocabulary> vocabulary;  // the model's tokens
  std::optional<Model> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  AddedTokens added;
  std::vector<int32_t> prefix_ids;  // added by add_special
  std::vector<int32_t> suffix_ids;
  int32_t bos_id = kNoToken;
  int32_t eos_id = kNoToken;
  int32_t unk_id = kNoToken;
  int32_t pad_id = kNoToken;
  // A word's ids do not depend on its neighbours, so that equal words of one text are encoded once.
  bool cache_words = true;
  // By id. `raw_text`: decoded as the plain string, around the decoder (added tokens of GGUF and tiktoken
  // vocabularies).
  std::vector<bool> special;
  std::vector<bool> control;
  std::vector<bool> raw_text;
  // Derived: added tokens by id and by content, where they differ from the model's vocabulary.
  Vocabulary added_vocabulary;
};

// Gives one id to a running decoding, and appends the text that is certain now.
void push_token(const TokenizerParts& parts, int32_t id, DecodeOptions options, Decoder::State& state,
                std::string& out);

// What the loaders know besides the parts.
struct TokenizerDraft {
  TokenizerParts parts;
  std::vector<AddedToken> added;
  std::vector<int32_t> raw_text_ids;
  std::vector<int32_t> control_ids;  // control tokens that are found in text by no added token
};

// Errors: those of AddedTokens::build; kInvalidData for ids out of range.
Result<Tokenizer> finish_tokenizer(TokenizerDraft draft);

}  // namespace firstlight::text
